"""`Dataset`: one evaluation as immutable columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cje.data import columns
from cje.data.arrays import frozen
from cje.data.codes import Codes, Strings
from cje.data.concat import concat_datasets
from cje.data.raters import RaterLabels
from cje.data.scale import UNIT, Scale
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Dataset"]

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """One row per judged response; columns are read-only arrays of one length.

    Build it with `from_arrays` or `cje.data.read`. Scores, labels and rewards are on [0, 1];
    `judge_scale` and `oracle_scale` lead back to the user's ranges.

    Attributes
    ----------
    prompt_id, policy : Codes
        Which prompt, and which policy wrote the response.
    cluster : Codes, optional
        What contains the prompts and makes them dependent: a conversation, a user, a document.
    draw_idx : int array
        Number of the draw among the responses of one policy to one prompt.
    judge_score : float array
        NaN where a row has none.
    judge_variance : float array, optional
    oracle_label : float array
        Mean over raters; NaN where the row is not labelled.
    rater_labels : RaterLabels, optional
        The single labels, where several raters were given.
    label_propensity : float array, optional
        Known probability with which the row was chosen for labelling.
    base_policy_logprob : float array, optional
        log-probability of the response under the policy that wrote it.
    target_policy_logprobs : float array (n, K), optional
        The same response under each of `target_policies`.
    rewards : float array, optional
        Calibrated rewards, added by calibration.
    covariates : mapping name -> float array
    groups : mapping name -> Codes
        Subgroups.
    prompt, response : Strings, optional
    judge_scale, oracle_scale : Scale
    metadata : mapping
        From the reader: ``reading``, sentences on what it recognised and assumed; ``columns``,
        which column of the source each one was; ``sources``, the rows read from each source.

    Examples
    --------
    >>> data = Dataset.from_arrays(prompt_id=["p1", "p2"], policy="new", judge_score=[0.4, 0.9],
    ...                            oracle_label=[float("nan"), 1.0])
    >>> len(data), data.policies, data.n_labelled
    (2, ('new',), 1)
    >>> data.select(data.is_labelled).prompt_id.decode()
    ['p2']
    """

    prompt_id: Codes
    policy: Codes
    draw_idx: IntArray
    judge_score: FloatArray
    oracle_label: FloatArray
    judge_variance: FloatArray | None = None
    rater_labels: RaterLabels | None = None
    label_propensity: FloatArray | None = None
    base_policy_logprob: FloatArray | None = None
    target_policy_logprobs: FloatArray | None = None
    target_policies: tuple[str, ...] = ()
    rewards: FloatArray | None = None
    covariates: Mapping[str, FloatArray] = field(default_factory=lambda: _EMPTY)
    groups: Mapping[str, Codes] = field(default_factory=lambda: _EMPTY)
    prompt: Strings | None = None
    response: Strings | None = None
    judge_scale: Scale = UNIT
    oracle_scale: Scale = UNIT
    metadata: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    cluster: Codes | None = None

    @classmethod
    def from_arrays(
        cls,
        *,
        prompt_id: Codes | Sequence[Any] | np.ndarray[Any, Any],
        policy: str | Codes | Sequence[str] | np.ndarray[Any, Any],
        judge_score: ArrayLike | None = None,
        oracle_label: ArrayLike | None = None,
        judge_variance: ArrayLike | None = None,
        rater_labels: RaterLabels | None = None,
        draw_idx: ArrayLike | None = None,
        label_propensity: ArrayLike | None = None,
        base_policy_logprob: ArrayLike | None = None,
        target_policy_logprobs: ArrayLike | Mapping[str, ArrayLike] | None = None,
        target_policies: Sequence[str] | None = None,
        rewards: ArrayLike | None = None,
        covariates: Mapping[str, ArrayLike] | None = None,
        groups: Mapping[str, Codes | Sequence[Any]] | None = None,
        prompt: Sequence[str] | pl.Series | None = None,
        response: Sequence[str] | pl.Series | None = None,
        judge_scale: Scale | tuple[float, float] | str = UNIT,
        oracle_scale: Scale | tuple[float, float] | str = UNIT,
        metadata: Mapping[str, Any] | None = None,
        cluster: Codes | Sequence[Any] | np.ndarray[Any, Any] | None = None,
    ) -> Dataset:
        """A checked Dataset from columns that are on [0, 1] already.

        Parameters
        ----------
        prompt_id : Codes, or sequence of str or int
        policy : str (one policy for all rows), Codes, or sequence of str
        judge_score, oracle_label, judge_variance, label_propensity, rewards : array, optional
            On [0, 1] (variance at most 1/4, propensity in (0, 1]); NaN means missing, which
            `rewards` cannot be. Without `oracle_label` the mean of `rater_labels` is taken, where
            given.
        draw_idx : int array, optional
            By default the repeats of one (policy, prompt) are numbered 0, 1, ... in row order.
            Where given, (policy, prompt_id, draw_idx) must be unique.
        target_policy_logprobs : mapping name -> array, or array (n, K) with `target_policies`
        judge_scale, oracle_scale : Scale, pair or text
            The ranges the values had before they were mapped to [0, 1].
        cluster : Codes, or sequence of str or int, optional
            Clusters that share a prompt are one.

        Raises
        ------
        CJEError
            A column of another length, a value outside its range, a duplicate row.
        """
        prompts = Codes.encode(prompt_id)
        n = len(prompts)
        policies = columns.policy_codes(policy, n)
        logprobs, names = columns.target_matrix(target_policy_logprobs, target_policies, n)
        if rater_labels is not None:
            columns.check_rater_rows(rater_labels, n)
            if oracle_label is None:
                oracle_label = frozen(rater_labels.row_means(n), np.float64)
        plain: dict[str, Any] = {
            "judge_score": judge_score,
            "oracle_label": oracle_label,
            "rewards": rewards,
            "judge_variance": judge_variance,
            "label_propensity": label_propensity,
            "base_policy_logprob": base_policy_logprob,
        }
        checked: dict[str, Any] = {
            name: columns.plain_column(name, given, n) for name, given in plain.items()
        }
        return cls(
            prompt_id=prompts,
            policy=policies,
            draw_idx=columns.draw_numbers(policies, prompts, draw_idx),
            rater_labels=rater_labels,
            target_policy_logprobs=logprobs,
            target_policies=names,
            covariates=columns.covariate_columns(covariates, n),
            groups=columns.group_columns(groups, n),
            prompt=columns.text_column("prompt", prompt, n),
            response=columns.text_column("response", response, n),
            judge_scale=Scale.parse(judge_scale),
            oracle_scale=Scale.parse(oracle_scale),
            metadata=MappingProxyType(dict(metadata or {})),
            cluster=columns.cluster_codes(cluster, prompts),
            **checked,
        )

    # ---- size and shape -------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.draw_idx)

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies, in the order of their codes."""
        return self.policy.names

    @property
    def n_prompts(self) -> int:
        """Size of the prompt vocabulary (some prompts may have no row after `select`)."""
        return self.prompt_id.n_names

    @property
    def units(self) -> Codes:
        """The independent units: clusters where there are any, else prompts."""
        return self.prompt_id if self.cluster is None else self.cluster

    @property
    def is_labelled(self) -> BoolArray:
        """Rows with an oracle label."""
        return self._labelled

    @cached_property
    def _labelled(self) -> BoolArray:
        return frozen(~np.isnan(self.oracle_label), np.bool_)

    @property
    def n_labelled(self) -> int:
        return int(np.count_nonzero(self.is_labelled))

    @property
    def has_logprobs(self) -> bool:
        return self.base_policy_logprob is not None and self.target_policy_logprobs is not None

    # ---- new data sets from this one --------------------------------------------------------

    def select(self, rows: ArrayLike) -> Dataset:
        """The rows of a boolean mask, or at an integer index (each row at most once).

        Codes keep their whole vocabulary, so that codes of the parts remain comparable.
        """
        index = columns.row_index(rows, len(self))
        if self.rater_labels is not None and len(np.unique(index)) != len(index):
            raise CJEError("select with rater_labels cannot repeat a row")
        changes: dict[str, Any] = {
            name: None if (column := getattr(self, name)) is None else frozen(column[index], kind)
            for name, kind in columns.ARRAYS.items()
        }
        for name in ("prompt_id", "policy", "prompt", "response", "cluster"):
            column = getattr(self, name)
            changes[name] = None if column is None else column.take(index)
        changes["covariates"] = MappingProxyType(
            {k: frozen(v[index], np.float64) for k, v in self.covariates.items()}
        )
        changes["groups"] = MappingProxyType({k: v.take(index) for k, v in self.groups.items()})
        if self.rater_labels is not None:
            changes["rater_labels"] = self.rater_labels.select(index, len(self))
        return replace(self, **changes)

    def select_policy(self, name: str) -> Dataset:
        """The rows of one policy."""
        return self.select(self.policy.mask(name))

    def concat(self, *others: Dataset) -> Dataset:
        """This data set followed by the others; a column some lack is missing there.

        Rewards cannot be missing: they are kept where every part has them.
        """
        return concat_datasets((self, *others))

    def with_columns(self, **new: Any) -> Dataset:
        """A copy with columns replaced or added.

        A name of a `Dataset` attribute replaces it (checked as in `from_arrays`; None removes an
        optional one); any other name adds a covariate (numbers) or a group (`Codes`, text).
        """
        if any(f.name in new and f.name not in columns.PLAIN for f in fields(self)):
            return self._rebuilt(new)
        n, added = len(self), dict(new)
        changes: dict[str, Any] = {
            name: columns.plain_column(name, added.pop(name), n)
            for name in columns.PLAIN
            if name in new
        }
        if added:
            covariates, groups = self._extended(added)
            changes["covariates"] = columns.covariate_columns(covariates, n)
            changes["groups"] = columns.group_columns(groups, n)
        return replace(self, **changes)

    def _rebuilt(self, new: Mapping[str, Any]) -> Dataset:
        """With a column replaced that others depend on: check the whole again."""
        arguments = {f.name: getattr(self, f.name) for f in fields(self)}
        if "target_policy_logprobs" in new and "target_policies" not in new:
            named = isinstance(new["target_policy_logprobs"], np.ndarray)
            arguments["target_policies"] = self.target_policies if named else None
        added = {name: value for name, value in new.items() if name not in arguments}
        arguments["covariates"], arguments["groups"] = self._extended(added)
        arguments.update((name, value) for name, value in new.items() if name in arguments)
        return Dataset.from_arrays(**arguments)

    def _extended(self, added: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Covariates and groups with new ones; a new column of either kind replaces the other."""
        covariates: dict[str, Any] = {k: v for k, v in self.covariates.items() if k not in added}
        groups: dict[str, Any] = {k: v for k, v in self.groups.items() if k not in added}
        for name, value in added.items():
            (groups if columns.is_categorical(value) else covariates)[name] = value
        return covariates, groups

    def with_metadata(self, **entries: Any) -> Dataset:
        """A copy with entries added to `metadata`; columns are shared."""
        return replace(self, metadata=MappingProxyType({**self.metadata, **entries}))

    # ---- comparison and text -----------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Same rows, columns and scales; `metadata` (where they came from) does not count."""
        if not isinstance(other, Dataset):
            return NotImplemented
        return columns.same_columns(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        # read-only views and mappings do not pickle as such: rebuild, checked, on the other side
        arguments = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("covariates", "groups", "metadata"):
            arguments[name] = dict(arguments[name])
        if self.target_policy_logprobs is None:
            arguments["target_policies"] = None
        return _rebuild, (arguments,)

    def __repr__(self) -> str:
        return (
            f"Dataset({len(self)} rows, {self.policy.n_names} policies, "
            f"{self.n_prompts} prompts, {self.n_labelled} labelled)"
        )

    def summary(self) -> str:
        """What is in the data, for a person."""
        from cje.data.summary import describe

        return describe(self)


def _rebuild(arguments: dict[str, Any]) -> Dataset:
    return Dataset.from_arrays(**arguments)
