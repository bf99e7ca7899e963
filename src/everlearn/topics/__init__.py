"""Topic models without and with labels: LDA, HDP, MedLDA and MedHDP."""
