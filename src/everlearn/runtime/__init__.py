"""Where a model runs and what survives of it: engines, streams, stores."""
