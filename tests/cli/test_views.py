"""Tables and JSON of the commands that look at a model."""

from itertools import pairwise

import pytest

from everlearn.cli.views import audit_summary, show_audit, show_differences, show_log
from everlearn.stream.audit import Audit, ScoredBatch
from everlearn.stream.diff import Change, Differences
from everlearn.stream.summary import Part


@pytest.fixture
def printed(monkeypatch, capsys):
    """What a function prints on a wide and plain terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def lines(function, *arguments):
        function(*arguments)
        return [line.strip() for line in capsys.readouterr().out.splitlines()]

    return lines


def part(number, share=0.25, about=("sea", "[bold]star"), **more):
    return Part(number, share, about, **more)


class TestLog:
    def test_each_event_has_its_time(self, printed):
        lines = printed(
            show_log,
            [
                {"time": "10:00", "records": 1200, "born": [3], "gone": [1]},
                {"time": "10:01", "records": 1300},
            ],
        )
        told = [line.split() for line in lines if "#" in line]
        assert told == [["10:00", "1,200", "born:", "#3"], ["10:00", "1,200", "gone:", "#1"]]

    def test_nothing_happened(self, printed):
        (line,) = printed(show_log, [{"time": "10:00", "records": 7}])
        assert line.startswith("No component was born, merged or deleted yet")


class TestDifferences:
    def test_births_deaths_and_growth(self, printed):
        stayed = Change(part(2, 0.5, ("sea",)), part(2, 0.25))
        found = Differences((part(7),), (part(1, 0.125),), (stayed,))
        lines = printed(show_differences, found)
        assert [line.split() for line in lines if "#" in line] == [
            ["#7", "25.0%", "sea", "[bold]star"],  # text is never read as markup
            ["#1", "12.5%", "sea", "[bold]star"],
            ["#2", "50.0%", "25.0%", "-25.0%", "[bold]star"],
        ]

    def test_weights_of_linear_models(self, printed):
        p = part(0, None, ("a+1.00",), speaks_for="spam")
        lines = printed(show_differences, Differences((), (), (Change(p, p, 0.5),), ""))
        assert ["50.0%", "spam", "a+1.00"] in [line.split() for line in lines]
        assert not any("share" in line for line in lines)

    @pytest.mark.parametrize("n", [40, 41, 100])
    def test_small_changes_are_counted(self, printed, n):
        stayed = tuple(Change(part(i), part(i)) for i in range(n))
        lines = printed(show_differences, Differences((), (), stayed))
        assert sum(line.startswith("#") for line in lines) == 40
        assert (f"and {n - 40} that changed less" in lines) == (n > 40)


class TestAudit:
    @staticmethod
    def audit(n):
        return Audit(tuple(ScoredBatch(i, "10:00", 20, -1.0, -1.0 - i / n) for i in range(n)))

    def test_change_has_a_sign(self, printed):
        lines = printed(show_audit, Audit((ScoredBatch(3, "10:00", 1200, -1.0, 0.5),)))
        assert ["3", "1,200", "-1.0000", "0.5000", "+1.5000", "10:00"] in [
            line.split() for line in lines
        ]
        assert "forgotten on average  +0.0000" in lines

    @pytest.mark.parametrize("n", [1, 40, 100, 1000])
    def test_of_many_batches_an_even_choice_is_shown(self, printed, n):
        lines = printed(show_audit, self.audit(n))
        shown = [int(line.split()[0]) for line in lines if line.endswith("10:00")]
        assert min(n, 40) <= len(shown) <= 80
        assert len({b - a for a, b in pairwise(shown)}) <= 1
        assert shown[0] == 0

    def test_json_has_all_of_them(self):
        found = audit_summary(self.audit(100))
        assert found["batches"] == len(found["marks"]) == 100
        assert found["marks"][50]["change"] == pytest.approx(-0.5)
        assert found["worst change"] == pytest.approx(-0.99)
        assert found["mean change"] == pytest.approx(-found["forgotten on average"])
