"""What a command line was refused for, in a sentence, whatever the parser calls it."""

from __future__ import annotations

import shlex

import pytest

from gradsync.cli.arguments import parse
from gradsync.errors import InputError

REFUSED = {
    "train --workers abc": "--workers is 'abc': it must be a whole number.",
    "train --workers": "--workers needs a value: it must be a whole number.",
    "train --workers=": "--workers is '': it must be a whole number.",
    "train --steps 1.5": "--steps is '1.5': it must be a whole number.",
    "train --lr high": "--lr is 'high': it must be a number.",
    "train --batch_size x": "--batch_size is 'x': it must be a whole number.",
    "train --schedule cosin": "--schedule is 'cosin': it must be one of constant, cosine, step.",
    "train --loss mae": "unknown loss 'mae'. Did you mean mse? Known: bce, cross-entropy, mse. Or give your own",
    "train --metric acuracy": "unknown metric 'acuracy'. Did you mean accuracy?",
    "train --model-options 3": "--model-options ends with '3': every name needs a value, for instance "
    "--model-options.width 256.",
    "train --model-options.width": "--model-options.width needs a value",
    "train --options. 3": "--options. needs the name of an option, for instance --options.bucket-mb 25.",
    "show a --json b": "gradsync cannot read 'b' where it stands: give all arguments before the flags.",
    "train --eval=true": "--eval is 'true': it takes no value. Give --eval or --no-eval.",
    "train --modle x": "gradsync train has no flag '--modle'. Did you mean --model",
    "train extra": "gradsync train does not know what to do with 'extra'.",
    "train --options 3": "--options ends with '3': every name needs a value",
    "compare --workers 2,x": "--workers has 'x': each must be a whole number.",
    "study batch --batch-sizes 1,b": "--batch-sizes has 'b': each must be a whole number.",
    "study bath": "unknown command of gradsync study: 'bath'. Did you mean batch",
    "study": "gradsync study needs a command. Name one of batch, scaling",
    "trian": "unknown command of gradsync: 'trian'. Did you mean train",
    "": "gradsync needs a command. Name one of train, compare",
    "cluster up": "gradsync cluster up needs NAME.",
    "cluster exec lab": "gradsync cluster exec needs NODE.",
    "cluster up lab --nodes two": "--nodes is 'two': it must be a whole number.",
    "report --format pdf": "--format is 'pdf': it must be one of html, md",
    "report -o": "-o needs a value: it must be a path.",
    "reproduce --scale huge": "--scale is 'huge': it must be one of full, short, smoke.",
    "probe --device tpu": "--device is 'tpu': it must be one of auto, cpu, cuda.",
    "data fetch --mirror": "--mirror needs a value: it must be text.",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_command_line_is_refused_with_a_sentence(words: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(InputError) as caught:
        parse(shlex.split(words))
    assert REFUSED[words] in str(caught.value)
    assert "\n" not in str(caught.value) and "╭" not in str(caught.value)
    assert capsys.readouterr().err == ""


def test_a_study_file_has_flags_too(tmp_path):
    (tmp_path / "grid.toml").write_text("[vary]\nlr = [0.1]\n")
    with pytest.raises(InputError, match=r"has no flag '--stesp'. Did you mean --steps"):
        parse(["study", str(tmp_path / "grid.toml"), "--stesp", "3"])


def test_numbers_below_zero_are_values():
    with pytest.raises(InputError, match="--seed is -5: it must be from 0"):
        parse(["train", "--seed", "-5"])
    with pytest.raises(InputError, match="--lr is -inf: it must be from 0"):
        parse(["train", "--lr", "-inf"])
