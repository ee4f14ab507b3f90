"""`cje score`: log-probs of logged responses under open-weights models, on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cje.cli.exit_codes import ANSWERED
from cje.cli.options import Quiet
from cje.errors import CJEError
from cje.terminal import say

__all__ = ["score"]


def score(
    logged: Annotated[
        Path, typer.Argument(help="Logged responses: .jsonl, .csv or .parquet, one row each.")
    ],
    policy: Annotated[
        list[str],
        typer.Option(
            "--policy",
            metavar="NAME=MODEL",
            help="A policy: its name, and a model folder or a name on the Hugging Face hub.",
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write: .parquet or .jsonl.")],
    logging: Annotated[
        str | None,
        typer.Option(help="Which policy wrote the responses (default: the column 'policy')."),
    ] = None,
    template: Annotated[
        str,
        typer.Option(help="auto (the model's chat template), raw, chatml, llama3, or a file."),
    ] = "auto",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME.FIELD=VALUE",
            help="A setting of one policy: cand.temperature=0.7, cand.system_prompt=TEXT.",
        ),
    ] = None,
    eos: Annotated[
        str | None, typer.Option(help="Text of the end token; needed with a template of your own.")
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(help="Precision of the matrix products: auto, float16, bfloat16 or float32."),
    ] = "auto",
    device: Annotated[
        str | None, typer.Option(help="cuda, cuda:1, mps or cpu (default: the first GPU).")
    ] = None,
    batch_invariant: Annotated[
        bool,
        typer.Option(
            "--batch-invariant", help="Give a row bit-identical log-probs in every batch."
        ),
    ] = False,
    batch_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of tokens per forward pass.")
    ] = None,
    context_field: Annotated[
        str | None, typer.Option(help="Column of the prompt (default: prompt, context, ...).")
    ] = None,
    response_field: Annotated[
        str | None, typer.Option(help="Column of the response (default: response, output, ...).")
    ] = None,
    work_dir: Annotated[
        Path | None, typer.Option(help="Folder of the store (default: beside the output).")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Add one log-prob column per policy. Stop at any time; the same command resumes."""
    from cje.pipeline.progress import NoProgress, make_reporter
    from cje.pipeline.scoring import score_file

    common: dict[str, Any] = {
        "provider": "transformers", "template": template, "dtype": dtype, "device": device,
        "batch_invariant": batch_invariant, "batch_tokens": batch_tokens,
    }  # fmt: skip
    if eos is not None:
        common["eos"] = eos
    policies = _policies(policy, common, setting or ())
    reporter = NoProgress() if quiet else make_reporter()
    try:
        found = score_file(
            logged, policies, out, logging=logging, context_field=context_field,
            response_field=response_field, work_dir=work_dir, reporter=reporter,
        )  # fmt: skip
    except KeyboardInterrupt:
        say("stopped; run the same command again to resume", err=True)
        raise typer.Exit(130) from None
    finally:
        reporter.close()
    say(found.text(), lines=True)
    raise typer.Exit(ANSWERED)


def _policies(
    given: Sequence[str], common: dict[str, Any], settings: Sequence[str]
) -> list[dict[str, Any]]:
    """One configuration per ``--policy``, with the ``--set`` values that name it."""
    import yaml

    made: dict[str, dict[str, Any]] = {}
    for text in given:
        name, sign, model = text.partition("=")
        if not sign or not name or not model:
            raise CJEError(
                "a policy needs a name and a model", value=text,
                hint="--policy cand=path/to/model",
            )  # fmt: skip
        if name in made:
            raise CJEError("two policies have the same name", value=name)
        made[name] = {**common, "name": name, "model": model}
    for text in settings:
        place, sign, value = text.partition("=")
        name, _, key = place.rpartition(".")
        if not sign or name not in made or not key:
            raise CJEError(
                "a setting is NAME.FIELD=VALUE with the name of a policy", value=text,
                hint=f"--set {next(iter(made))}.temperature=0.7",
            )  # fmt: skip
        made[name][key] = yaml.safe_load(value)
    return list(made.values())
