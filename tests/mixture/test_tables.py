"""`DPMixture` on tables: columns of numbers, categories and counts, with gaps."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from everlearn import merge
from everlearn.estimator.saving import load
from everlearn.mixture.columns import MAX_VALUES
from everlearn.mixture.estimator import DPMixture
from support.streams import file_of

PLANS = np.array(["free", "pro", "team", "school"], object)


def planted(n: int, seed: int, gaps: float = 0.1, noise: int = 0) -> tuple[pd.DataFrame, Any]:
    """Four kinds of rows; numbers or categories alone tell only some of them apart."""
    rng = np.random.default_rng(seed)
    k = rng.choice(4, n, p=[0.35, 0.3, 0.2, 0.15])
    table = pd.DataFrame(
        {
            "spend": rng.normal(np.array([10.0, 10.0, 30.0, 30.0])[k], 6.0),
            "age": rng.normal(np.array([30.0, 55.0, 30.0, 55.0])[k], 9.0),
            "plan": PLANS[np.where(rng.random(n) < 0.8, k, rng.integers(4, size=n))],
            "visits": rng.poisson(np.array([2.0, 12.0, 12.0, 2.0])[k]),
            "member": rng.random(n) < np.array([0.05, 0.2, 0.9, 0.95])[k],
        }
    )
    if noise:
        table["city"] = [f"city {i}" for i in rng.integers(noise, size=n)]
    if gaps:
        table = table.astype({"visits": "Int64", "member": "boolean"})
        table = table.mask(rng.random(table.shape) < gaps)
    return table, k


def table_model(**params: Any) -> DPMixture:
    return DPMixture(random_state=0, engine="serial", **params)


def kinds(model: DPMixture) -> dict[str, str]:
    return {column.name: column.kind for column in model.columns_}


class TestRecovery:
    @pytest.mark.parametrize("noise", [0, 200])
    def test_planted_kinds_of_rows_are_found(self, noise: int) -> None:
        """Limits: ten percent of all entries missing, perhaps a column of 200 random values."""
        scores, alone = [], []
        for seed in range(10):
            table, k = planted(1000, seed, noise=noise)
            scores.append(adjusted_rand_score(k, table_model().fit_predict(table)))
            if seed < 3:
                numbers = table[["spend", "age", "visits"]].astype(float).to_numpy()
                alone.append(adjusted_rand_score(k, table_model().fit_predict(numbers)))
        assert sum(score >= 0.93 for score in scores) >= 9, scores
        assert np.mean(scores[:3]) > np.mean(alone) + 0.05

    def test_a_stream_finds_them_too(self) -> None:
        table, k = planted(3000, 1)
        model = table_model()
        for start in range(0, len(table), 100):
            model.partial_fit(table[start : start + 100])
        assert adjusted_rand_score(k, model.predict(table)) > 0.9

    def test_the_bound_never_falls(self) -> None:
        table, _ = planted(600, 2, noise=30)
        bounds = table_model(moves=()).fit(table).bound_history_
        assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()


class TestKinds:
    def test_they_are_chosen_by_type_and_values(self) -> None:
        n = 200
        rng = np.random.default_rng(0)
        table = pd.DataFrame(
            {
                "text": rng.choice(["a", "b"], n),
                "flag": rng.random(n) < 0.5,
                "categorical": pd.Categorical(rng.integers(40, size=n)),
                "grade": rng.integers(1, 6, size=n),
                "half": rng.integers(3, size=n) / 2,
                "count": rng.poisson(6, n),
                "year": 1990 + rng.integers(30, size=n),
                "large count": rng.poisson(300, n) * (rng.random(n) < 0.9),
                "price": rng.normal(size=n),
                "nothing": np.full(n, np.nan),
            }
        )
        assert kinds(table_model().fit(table)) == {
            "text": "categories",
            "flag": "categories",
            "categorical": "categories",
            "grade": "categories",
            "half": "categories",
            "count": "counts",
            "year": "numbers",
            "large count": "numbers",
            "price": "numbers",
            "nothing": "categories",
        }

    def test_users_may_name_them(self) -> None:
        table, _ = planted(200, 0)
        model = table_model(family={"visits": "numbers", "age": "categories"})
        found = kinds(model.fit(table.round()))
        assert found["visits"] == found["spend"] == "numbers"
        assert found["age"] == "categories"

    def test_few_rows_choose_again_when_there_are_more(self) -> None:
        rng = np.random.default_rng(0)
        text = rng.choice(["a", "b"], 300)
        table = pd.DataFrame({"grade": rng.integers(1, 6, 300), "text": text})
        model = table_model().partial_fit(table[:4])
        assert kinds(model)["grade"] == "counts"
        model.partial_fit(table[4:])
        assert kinds(model)["grade"] == "categories"
        assert model.columns_[0].values == ("1", "2", "3", "4", "5")
        whole = table_model().partial_fit(table)
        assert_allclose(model.bound_, whole.bound_, rtol=0.01)

    @pytest.mark.parametrize(
        ("family", "words"),
        [
            ({"wealth": "numbers"}, ["'wealth'", "does not have", "'plan'"]),
            ({"plan": "counts"}, ["'plan'", "text"]),
            ({"plan": "words"}, ["'family'", "'categories'"]),
            ({"spend": "counts"}, ["'spend'", "whole numbers"]),
        ],
    )
    def test_impossible_ones_are_refused(self, family: Any, words: list[str]) -> None:
        with pytest.raises(ValueError, match="DPMixture") as caught:
            table_model(family=family).fit(planted(50, 0)[0])
        assert all(word in str(caught.value) for word in words), caught.value

    def test_they_cannot_change_later(self) -> None:
        table, _ = planted(300, 0)
        model = table_model().fit(table)
        with pytest.raises(ValueError, match="'visits' holds numbers, but it was learned"):
            model.set_params(family={"visits": "numbers"}).partial_fit(table)


class TestInputs:
    def test_numbers_alone_are_diagonal_gaussians_as_ever(self) -> None:
        X = np.random.default_rng(0).normal(size=(200, 3)) + np.repeat([[0.0], [9.0]], 100, axis=0)
        one, other = (
            table_model().fit(X),
            table_model(family="diagonal").fit(pd.DataFrame(X).values),
        )
        assert one.columns_ == ()
        assert_array_equal(one.means_, other.means_)
        assert_array_equal(one.predict_proba(X), other.predict_proba(X))
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        assert_array_equal(table_model().fit(frame).means_, one.means_)

    def test_containers_do_not_matter(self) -> None:
        table, _ = planted(150, 3)
        plain = table.astype(object).where(table.notna(), None)
        fields = [(name, object) for name in table]
        records = np.array(list(plain.itertuples(index=False, name=None)), fields)
        rows = [table, plain, pl.from_pandas(table), records, plain.to_numpy()]
        rows.append(plain.to_numpy().tolist())
        models = [table_model().fit(own) for own in rows]
        for model, own in zip(models, rows, strict=True):
            assert model.bound_ == models[0].bound_
            assert_array_equal(model.predict_proba(own), models[0].predict_proba(table))

    def test_types_of_data_frames_do_not_matter(self) -> None:
        rng = np.random.default_rng(0)
        size = np.array(["s", "m", "l"])[rng.integers(3, size=90)].tolist()
        size[4] = None
        x = rng.normal(size=90)
        frames = [
            pd.DataFrame({"x": x, "size": pd.Series(size, dtype="object")}),
            pd.DataFrame({"x": x, "size": pd.Series(size, dtype="str")}),
            pd.DataFrame({"x": x, "size": pd.Categorical(size)}),
            pl.DataFrame({"x": x, "size": size}),
            pl.DataFrame({"x": x, "size": pl.Series(size, dtype=pl.Categorical)}),
            pl.DataFrame({"x": x, "size": pl.Series(size, dtype=pl.Enum(["s", "m", "l"]))}),
        ]
        bounds = [table_model().fit(frame).bound_ for frame in frames]
        assert len(set(bounds)) == 1

    def test_categories_may_be_numbers_with_a_dtype(self) -> None:
        codes = np.random.default_rng(0).integers(12, size=200)
        model = table_model().fit(pd.DataFrame({"code": pd.Categorical(codes), "x": codes / 7}))
        assert model.columns_[0].values[:3] == ("0", "1", "10")
        assert not model.columns_[0].numeric

    def test_the_order_of_rows_does_not_matter_in_fit(self) -> None:
        table, _ = planted(300, 4)
        one, other = table_model().fit(table), table_model().fit(table[::-1])
        assert one.bound_ == other.bound_

    def test_weights_are_repetitions(self) -> None:
        table, _ = planted(100, 5)
        times = np.arange(100) % 3
        one = table_model().fit(table, sample_weight=times)
        other = table_model().fit(table.loc[np.repeat(table.index, times)])
        assert_allclose(one.bound_, other.bound_, rtol=1e-9)

    def test_a_value_without_weight_has_no_code(self) -> None:
        table, _ = planted(100, 5, gaps=0.0)
        table.loc[0, "plan"] = "rare"
        model = table_model().fit(table, sample_weight=np.arange(100) > 0)
        assert "rare" not in model.columns_[2].values
        assert np.isfinite(model.score_samples(table)).all()

    def test_names_and_ids_are_refused_by_name(self) -> None:
        table, _ = planted(100, 0)
        table["name"] = [f"row {i}" for i in range(len(table))]
        with pytest.raises(ValueError, match=r"'name' has 100 different values in 100 rows.*drop"):
            table_model().fit(table)
        assert kinds(table_model(family={"name": "categories"}).fit(table))["name"] == "categories"

    @pytest.mark.parametrize(
        "days", [pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-01").date(), pd.Timedelta("1h")]
    )
    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.from_pandas])
    def test_dates_are_refused_by_name(self, days: Any, frame: Any) -> None:
        table, _ = planted(50, 0, gaps=0.0)
        with pytest.raises(ValueError, match=r"'when', got dates\. Leave it out, or turn it"):
            table_model().fit(frame(table.assign(when=days)))

    def test_a_named_prior_of_gaussians_does_not_suit(self) -> None:
        with pytest.raises(ValueError, match="'prior' of DPMixture"):
            table_model(prior="shared").fit(planted(50, 0)[0])

    def test_text_cannot_join_a_model_of_numbers(self) -> None:
        model = table_model().fit(np.ones((20, 1)) * np.arange(20)[:, None])
        with pytest.raises(ValueError, match="expected numbers"):
            model.partial_fit([["web"]])

    @pytest.mark.parametrize(
        ("wrong", "hint"),
        [
            (lambda t: t.iloc[0], "a single row is a table too, as \\[row\\]"),
            (lambda t: t.to_dict("records"), "pandas\\.DataFrame\\(X\\) makes a table of it"),
            (lambda t: t.to_dict("list"), "pandas\\.DataFrame\\(X\\) makes a table of it"),
            (lambda t: pl.from_pandas(t).lazy(), "got a LazyFrame; call collect\\(\\) first"),
        ],
    )
    def test_what_is_no_table_says_how_to_make_one(self, wrong: Any, hint: str) -> None:
        table = pd.DataFrame({"age": np.arange(60.0), "plan": ["free", "pro"] * 30})
        model = table_model(max_components=1).fit(table)
        X = wrong(table)
        with pytest.raises((TypeError, ValueError), match=hint):
            model.predict(X)


class TestNewValues:
    def test_they_get_codes_and_the_bound_stays(self) -> None:
        table, _ = planted(400, 0)
        model = table_model().partial_fit(table[:300])
        before = model.bound_
        late = table[300:].assign(plan="trial")
        expected = model.score_samples(late)
        assert np.isfinite(expected).all()
        model.partial_fit(late)
        assert model.columns_[2].values == ("free", "pro", "school", "team", "trial")
        assert model.bound_ < before
        assert model.score_samples(late).mean() > expected.mean() + 1

    def test_a_new_value_alone_changes_nothing_that_was_learned(self) -> None:
        """A row of missing values but one teaches only that one."""
        table, _ = planted(300, 0)
        model = table_model().partial_fit(table)
        probabilities = model.predict_proba(table)
        row = table[:1].copy()
        row[["spend", "age", "visits", "member"]] = pd.NA
        model.partial_fit(row.assign(plan="trial", spend=np.nan, age=np.nan))
        assert_allclose(model.predict_proba(table), probabilities, atol=0.02)

    def test_they_are_bounded(self) -> None:
        rng = np.random.default_rng(0)
        model = table_model(family={"city": "categories"}, birth_window=500)
        sizes = []
        for start in range(0, 3000, 300):
            cities = [f"c{i}" for i in range(start, start + 300)]
            table = pd.DataFrame({"city": cities, "x": rng.normal(size=300)})
            model.partial_fit(table)
            sizes.append(len(model.columns_[0].values))
        assert max(sizes) == MAX_VALUES
        assert np.isfinite(model.score_samples(table)).all()

    def test_a_budget_holds_with_them(self) -> None:
        model = table_model(memory_budget="2MB", family={"city": "categories"})
        rng = np.random.default_rng(0)
        for start in range(0, 1500, 100):
            cities = [f"c{i}" for i in range(start, start + 100)]
            model.partial_fit(pd.DataFrame({"city": cities, "x": rng.normal(size=100)}))
            report = model.memory_report()
            assert report["total"] <= report["budget"]

    def test_batches_with_names_can_still_be_forgotten(self) -> None:
        table, _ = planted(600, 0)
        model = table_model(birth_window=150, batch_size=50).partial_fit(table[:300])
        model.partial_fit(table[300:400], batch_id="a")
        model.partial_fit(table[400:].assign(plan="trial"), batch_id="b")
        assert model._learned.state.named_parts
        model.forget("a")
        assert_allclose(model._learned.state.total.n.sum(), 500)
        assert np.isfinite(model.score_samples(table)).all()

    def test_one_row_at_a_time(self) -> None:
        table, _ = planted(40, 0)
        model = table_model()
        for i in range(40):
            model.partial_fit(table[i : i + 1])
        assert kinds(model)["plan"] == "categories"
        assert_allclose(model.bound_, table_model().partial_fit(table).bound_, rtol=0.05)

    @pytest.mark.parametrize("more", [1, 20, 30])
    def test_a_few_whole_numbers_at_first_do_not_make_a_column_counts(self, more: int) -> None:
        table, _ = planted(100, 0)
        model = table_model().partial_fit(table[:20].assign(age=np.arange(20) % 7))
        assert kinds(model)["age"] == "counts"
        model.partial_fit(table[20 : 20 + more].assign(age=np.arange(more) - 1.5))
        assert kinds(model)["age"] == "numbers"
        assert model.n_samples_seen_ == 20 + more

    def test_other_numbers_in_a_column_of_counts_are_refused_later(self) -> None:
        table, _ = planted(400, 0)
        table["age"] = np.arange(400) % 13
        table["plan"] = "free"
        model = table_model().partial_fit(table[:300])
        before = file_of(model)
        with pytest.raises(ValueError, match="'age', which holds counts"):
            model.partial_fit(table[300:].assign(age=0.5))
        assert file_of(model) == before

    def test_a_column_may_be_empty_at_first(self) -> None:
        table, _ = planted(300, 0)
        early = table[:60].assign(plan=np.nan, age=None)
        model = table_model().partial_fit(early)
        assert [model.columns_[j].is_unknown for j in range(5)] == [False, True, True, False, False]
        model.partial_fit(table[60:])
        assert [kinds(model)[name] for name in ("plan", "age")] == ["categories", "numbers"]

    def test_numbers_in_a_column_that_was_empty_for_long_are_refused(self) -> None:
        table, _ = planted(600, 0)
        model = table_model().partial_fit(table[:300].assign(age=None))
        before = file_of(model)
        with pytest.raises(ValueError, match="'age', which had no value in the first 300 rows"):
            model.partial_fit(table[300:])
        assert file_of(model) == before
        model.partial_fit(table[300:].assign(age=None))


class TestAnswers:
    def test_profiles_name_what_sets_components_apart(self) -> None:
        table, k = planted(2000, 0)
        model = table_model().fit(table)
        labels = model.predict(table)
        pro = model.component_ids_[np.bincount(labels[k == 1]).argmax()]
        own = {p.column: p for p in model.profiles() if p.component == pro}
        assert own["plan"].value == "pro"
        assert_allclose([own["plan"].level, own["plan"].overall], [0.85, 0.3], atol=0.06)
        assert_allclose(own["age"].level, 55.0, atol=1.0)
        assert_allclose(own["visits"].level, 12.0, atol=0.7)
        assert_allclose(own["visits"].overall, table["visits"].mean(), atol=0.1)
        differences = [p.difference for p in model.profiles() if p.component == pro]
        assert differences == sorted(differences, reverse=True)
        assert min(differences) >= 0
        assert str(own["plan"]).startswith("plan=pro 8")

    def test_profiles_of_numbers_are_refused(self) -> None:
        model = table_model().fit(np.random.default_rng(0).normal(size=(50, 2)))
        with pytest.raises(ValueError, match="means_"):
            model.profiles()

    def test_samples_are_rows_of_the_table(self) -> None:
        table, _ = planted(1000, 0)
        model = table_model().fit(table)
        X, y = model.sample(2000)
        assert X.dtype == object
        assert {type(value) for value in X[:, 2]} <= {str, type(None)}
        assert_allclose(np.mean(X[:, 0].astype(float)), table["spend"].mean(), atol=1.0)
        seen = pd.Series(X[:, 2]).value_counts(normalize=True)
        assert_allclose(seen["free"], (table["plan"].dropna() == "free").mean(), atol=0.05)
        renamed = pd.DataFrame(X, columns=list(table))
        assert (model.predict(renamed) == y).mean() > 0.9

    def test_densities_sum_to_one_over_values(self) -> None:
        table, _ = planted(300, 0)
        model = table_model().fit(table)
        row = table[:1].astype(object)
        row[:] = None
        values = [*model.columns_[2].values, "never seen"]
        each = [model.score_samples(row.assign(plan=value))[0] for value in values]
        assert_allclose(np.exp(each).sum(), 1.0, rtol=1e-9)

    def test_files_give_the_same_model(self, tmp_path: Any) -> None:
        table, _ = planted(500, 0)
        model = table_model(family={"age": "numbers"}).partial_fit(table[:400])
        model.save(tmp_path / "model.evl")
        twin = load(tmp_path / "model.evl")
        assert twin.columns_ == model.columns_
        assert twin.family == {"age": "numbers"}
        late = table[400:].assign(plan="trial")
        assert file_of(twin.partial_fit(late)) == file_of(model.partial_fit(late))


class TestMerge:
    def test_values_of_both_are_kept(self) -> None:
        table, k = planted(2000, 0)
        halves = table[:1000].copy(), table[1000:].copy()
        halves[0].loc[halves[0]["plan"] == "school", "plan"] = "kindergarten"
        models = [table_model().fit(half) for half in halves]
        whole = merge(models)
        assert whole.n_samples_seen_ == 2000
        assert set(whole.columns_[2].values) == {"free", "pro", "team", "kindergarten", "school"}
        assert adjusted_rand_score(k, whole.predict(table)) > 0.9
        sums = [model._learned.state.total.n.sum() for model in (*models, whole)]
        assert_allclose(sums[2], sums[0] + sums[1])

    def test_with_a_base_rows_count_once(self, tmp_path: Any) -> None:
        table, _ = planted(900, 0)
        base = table_model(moves=("birth",)).fit(table[:500])
        base.save(tmp_path / "base.evl")
        shards = [load(tmp_path / "base.evl") for _ in range(2)]
        shards[0].partial_fit(table[500:700].assign(plan="trial"))
        shards[1].partial_fit(table[700:])
        whole = merge(shards, base=base)
        assert whole.n_samples_seen_ == 900
        assert_allclose(whole._learned.state.total.n.sum(), 900)
        assert "trial" in whole.columns_[2].values

    def test_other_kinds_are_refused(self) -> None:
        table, _ = planted(300, 0)
        one = table_model().fit(table)
        other = table_model().fit(table.assign(visits=table["visits"] + 100))
        with pytest.raises(ValueError, match="'visits' holds counts in the first model"):
            merge([one, other])
