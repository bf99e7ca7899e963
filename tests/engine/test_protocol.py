"""Runs of data that stay where they are, and the order in which engines add up."""

from everlearn.core.stats import total
from everlearn.engine.protocol import LocalHandle, Piece, add_up, by_chunk, pieces, resolve
from support.spelling import Concat, spell


class TestPieces:
    def test_runs_do_not_cross_chunks(self, monkeypatch):
        monkeypatch.setattr("everlearn.engine.protocol.CHUNK_ROWS", 10)
        found = pieces(list(range(23)), 4, lambda where: where.start)
        assert [p.load() for p in found] == [
            ([0, 1, 2, 3], 0), ([4, 5, 6, 7], 4), ([8, 9], 8),
            ([10, 11, 12, 13], 10), ([14, 15, 16, 17], 14), ([18, 19], 18),
            ([20, 21, 22], 20),
        ]  # fmt: skip
        assert [len(run) for run in by_chunk(found)] == [3, 3, 1]
        assert [p.whole.stop for p in found] == [4, 8, 10, 14, 18, 20, 23]

    def test_a_piece_of_a_chunk_elsewhere_is_the_same(self):
        near = Piece([5, 6, 7, 8, 9], slice(1, 5), slice(1, 3), "x")
        far = Piece(LocalHandle([6, 7, 8, 9]), None, slice(1, 3), "x")
        assert near.load() == far.load() == near.of([6, 7, 8, 9]) == ([7, 8], "x")

    def test_sums_are_made_within_chunks_first(self, engine, monkeypatch):
        monkeypatch.setattr("everlearn.engine.protocol.CHUNK_ROWS", 3)
        found, infos = engine.map_sum(spell, pieces(tuple(range(7)), 1), None)
        one, two, three = (((0,),), ((1,),)), ((2,),), (((3,),), ((4,),))
        assert infos == [(None, (i,)) for i in range(7)]
        assert found == (((one, two), (three, ((5,),))), ((6,),))

    def test_what_is_kept_is_told_apart_by_chunk(self, engine, monkeypatch):
        monkeypatch.setattr("everlearn.engine.protocol.CHUNK_ROWS", 3)
        items = pieces(tuple(range(7)), 2)
        found, kept = engine.map_sum_and_keep(spell, items, None)
        assert found == engine.map_sum(spell, items, None)[0]
        assert [len(handle.fetch()) for handle in kept] == [2, 2, 1]
        again = engine.map(lambda _, item: item, [(kept[0], 4), (kept[2], 5)], None)
        assert again[1] == ([(None, (6,))], 5)


class TestResolve:
    def test_handles_and_pieces_become_what_they_stand_for_also_in_tuples(self):
        piece = Piece([5, 6, 7], slice(0, 3), slice(1, 3))
        item = (LocalHandle("held"), (piece, 4), [LocalHandle("in a list")])
        held, (run, four), own = resolve(item)
        assert (held, run, four) == ("held", [6, 7], 4)
        assert own == item[2]  # lists are the caller's own


class TestAddUp:
    def test_sums_are_nodes_of_the_tree_however_results_arrive(self):
        results = ((spell("s", i)) for i in range(6))
        summed, infos = add_up(results, [[0, 1], [2, 3, 4], [5]])
        alone = [total([spell("s", i)[0] for i in run]) for run in ([0, 1], [2, 3, 4], [5])]
        assert summed == total(alone)
        assert infos == [("s", i) for i in range(6)]

    def test_each_result_is_added_before_the_next_is_made(self):
        """So that few are in memory at the same time."""
        log = []

        class Logged(Concat):
            def __add__(self, other):
                log.append("added")
                return Logged(super().__add__(other))

        def results():
            for i in range(4):
                log.append(f"made {i}")
                yield Logged((i,)), None

        add_up(results(), [[0, 1, 2, 3]])
        assert log == ["made 0", "made 1", "added", "made 2", "made 3", "added", "added"]
