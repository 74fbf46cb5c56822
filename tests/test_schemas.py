"""The schema files, their agreement with the dataclasses, and the verdicts made from them."""

from __future__ import annotations

import copy
import dataclasses
import json
import random
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from execsrv import schemas, wire
from execsrv.errors import InvalidParams
from execsrv.protocol import common, events, files, first_cut, handshake, processes

FOLDER = Path(__file__).parent.parent / "schemas"
FILES = {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
METHODS = schemas.methods()
PARTS = [(method, part) for method in METHODS for part in schemas.schema(method)["properties"]]

START = {"processId": "p", "argv": ["true"], "cwd": "/", "env": {}, "tty": False}


def rules(node: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside ``node``, itself included; examples are none."""
    yield node
    inner = [*node.get("properties", {}).values(), *node.get("$defs", {}).values()]
    inner += [node[name] for name in ("items", "additionalProperties") if name in node]
    for rule in inner:
        yield from rules(rule)


def nested(depth: int) -> Any:
    """Empty lists, each in the next."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def fault(method: str, params: Any) -> str:
    """The words that ``params`` are refused with."""
    with pytest.raises(InvalidParams) as caught:
        schemas.validate_params(method, params)
    return caught.value.message


# ---- the files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_a_valid_schema(name: str) -> None:
    """By the rules of draft 2020-12."""
    assert FILES[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(FILES[name])


def test_every_file_but_the_shared_one_is_a_method() -> None:
    """Methods are found by their files' names."""
    assert sorted(name.removesuffix(".json").replace(".", "/") for name in FILES) == sorted([*METHODS, "common"])


@pytest.mark.parametrize("method", METHODS)
def test_a_file_says_what_it_describes(method: str) -> None:
    """Title, id and file name are one name; the kind is known; a request, and nothing else, has a result."""
    schema = schemas.schema(method)
    assert schema["title"] == method
    assert schema["$id"] == method.replace("/", ".") + ".json"
    assert schemas.kind(method) in typing.get_args(schemas.Kind)
    parts = ["params", "result"] if schemas.kind(method) == "request" else ["params"]
    assert list(schema["properties"]) == schema["required"] == parts


@pytest.mark.parametrize("method", METHODS)
def test_every_field_is_described(method: str) -> None:
    """The document, and each field of its params and result, in sentences."""
    schema = schemas.schema(method)
    assert schema["description"].endswith(".")
    for part in schema["properties"].values():
        for rule in rules(part):
            for name, field in rule.get("properties", {}).items():
                assert field.get("description", "").endswith("."), f"{name} is not described"


@pytest.mark.parametrize("method, part", PARTS)
def test_every_integer_has_bounds_and_no_object_is_closed(method: str, part: str) -> None:
    """Unknown members are welcome everywhere."""
    for rule in rules(schemas.schema(method)["properties"][part]):
        if "integer" in rule.get("type", []):
            assert rule["minimum"] < rule["maximum"]
        assert rule.get("additionalProperties") is not False
        assert "unevaluatedProperties" not in rule


@pytest.mark.parametrize("method", [name for name in METHODS if schemas.kind(name) != "serverNotification"])
def test_null_and_the_default_fit_optional_params_only(method: str) -> None:
    """Null means absent in whatever a client sends."""
    for rule in rules(schemas.schema(method)["properties"]["params"]):
        for name, field in rule.get("properties", {}).items():
            optional = name not in rule.get("required", [])
            assert Draft202012Validator(field).is_valid(None) == optional, name
            assert not optional or Draft202012Validator(field).is_valid(field.get("default")), name


@pytest.mark.parametrize("name", FILES)
def test_beside_a_reference_stand_only_words(name: str) -> None:
    """So that putting the shared part in its place changes no verdict."""
    for rule in rules(FILES[name]):
        assert "$ref" not in rule or set(rule) <= {"$ref", "description"}


@pytest.mark.parametrize("method", METHODS)
def test_every_example_holds(method: str) -> None:
    """Under the files as they are, their references followed by the standard's rules, and under ours."""
    registry: Registry[Any] = Registry().with_resources(
        [(name, Resource.from_contents(document)) for name, document in FILES.items()]
    )
    validator = Draft202012Validator(FILES[schemas.schema(method)["$id"]], registry=registry)
    examples = schemas.schema(method)["examples"]
    assert examples
    for example in examples:
        validator.validate(example)
        assert schemas.validate_params(method, example["params"]) == example["params"]
        if "result" in example:
            schemas.validate_result(method, example["result"])


@pytest.mark.parametrize("method", METHODS)
def test_a_printed_schema_is_complete(method: str) -> None:
    """No reference is left, and each caller gets a copy of its own."""
    schema = schemas.schema(method)
    assert "$ref" not in json.dumps(schema)
    schema["properties"]["params"].clear()
    assert schemas.schema(method)["properties"]["params"]


@pytest.mark.parametrize("method", ["", "common", "process", "process/START", "../schemas/process/start", "\0"])
def test_an_unknown_method_is_a_key_error(method: str) -> None:
    """No name reaches the file system."""
    with pytest.raises(KeyError):
        schemas.schema(method)
    with pytest.raises(KeyError):
        schemas.validate_params(method, {})


# ---- agreement with the dataclasses --------------------------------------------------------------------------------

CLASSES: dict[str, tuple[type, type | None]] = {
    "initialize": (handshake.InitializeParams, handshake.InitializeResult),
    "process/start": (processes.ProcessStartParams, processes.ProcessStartResult),
    "process/read": (processes.ProcessReadParams, processes.ProcessReadResult),
    "process/write": (processes.ProcessWriteParams, processes.ProcessWriteResult),
    "process/terminate": (processes.ProcessTerminateParams, processes.ProcessTerminateResult),
    "process/signal": (processes.ProcessSignalParams, common.Empty),
    "process/closeStdin": (processes.ProcessParams, common.Empty),
    "process/resize": (processes.ProcessResizeParams, common.Empty),
    "process/wait": (processes.ProcessWaitParams, processes.ProcessWaitResult),
    "process/snapshot": (processes.ProcessParams, processes.ProcessSnapshotResult),
    "process/list": (common.Empty, processes.ProcessListResult),
    "process/ack": (processes.ProcessAckParams, None),
    "process/started": (events.ProcessStarted, None),
    "process/output": (events.ProcessOutput, None),
    "process/exited": (events.ProcessExited, None),
    "process/closed": (events.ProcessClosed, None),
    "command/exec": (first_cut.CommandExecParams, first_cut.CommandExecResult),
    "command/exec/write": (processes.ProcessWriteParams, first_cut.CommandWriteResult),
    "command/exec/terminate": (processes.ProcessParams, processes.ProcessTerminateResult),
    "fs/readFile": (files.PathParams, files.ReadFileResult),
    "fs/writeFile": (files.WriteFileParams, common.Empty),
    "fs/createDirectory": (files.CreateDirectoryParams, common.Empty),
    "fs/getMetadata": (files.PathParams, files.Metadata),
    "fs/readDirectory": (files.PathParams, files.ReadDirectoryResult),
    "fs/remove": (files.RemoveParams, common.Empty),
    "fs/copy": (files.CopyParams, common.Empty),
    "fs/open": (files.OpenParams, files.OpenResult),
    "fs/readBlock": (files.ReadBlockParams, files.ReadBlockResult),
    "fs/writeBlock": (files.WriteBlockParams, common.Empty),
    "fs/close": (files.CloseParams, common.Empty),
}

#: Methods without a dataclass: nothing in them is read, or they are made from another method's.
WITHOUT_CLASSES = {"initialized", "command/exec/outputDelta", "command/exec/exited"}

JSON_TYPES = {str: "string", bytes: "string", bool: "boolean", int: "integer", dict: "object", list: "array"}


def compare(cls: type, rule: dict[str, Any], required: list[str]) -> None:
    """``cls`` has the fields of ``rule``, and ``required`` are those that must be there."""
    hints = typing.get_type_hints(cls)
    names = {wire.camel_case(field.name): hints[field.name] for field in dataclasses.fields(cls)}
    assert set(names) == set(rule.get("properties", {}))
    assert rule.get("required", []) == required
    for name, hint in names.items():
        compare_types(hint, rule["properties"][name])


def compare_types(hint: Any, rule: dict[str, Any]) -> None:
    """A value of the type ``hint`` is what ``rule`` describes; that a param may be null is another test's matter."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hint = typing.get_args(hint)[0]
    origin = typing.get_origin(hint) or hint
    if origin is typing.Literal:
        assert [value for value in rule["enum"] if value is not None] == list(typing.get_args(hint))
    elif dataclasses.is_dataclass(hint):
        assert "object" in rule["type"]
        compare_any(typing.cast(type, hint), rule)
    elif "const" in rule or rule["type"] == "null":
        assert rule.get("const") is None or isinstance(rule["const"], hint)
    else:
        assert JSON_TYPES[origin] in rule["type"]
        assert origin is not bytes or rule["contentEncoding"] == "base64"
    inner = rule.get("items") or rule.get("additionalProperties")
    if inner is not None:
        compare_types(typing.get_args(hint)[-1], inner)


def compare_any(cls: type, rule: dict[str, Any]) -> None:
    """A class inside another one: fields with a default may be left out."""
    fields = [(field, wire.camel_case(field.name)) for field in dataclasses.fields(cls)]
    compare(cls, rule, [name for field, name in fields if not has_default(field)])
    for field, name in fields:
        if has_default(field):
            compare_default(field, rule["properties"][name])


def has_default(field: dataclasses.Field[Any]) -> bool:
    """Whether the field may be left out."""
    return (field.default, field.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)


def compare_default(field: dataclasses.Field[Any], rule: dict[str, Any]) -> None:
    """The schema tells the default, save None."""
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        value = field.default
    value = wire.to_wire(value) if dataclasses.is_dataclass(value) else value
    assert rule.get("default") == value


def test_the_classes_are_all_compared() -> None:
    """Every method has a class for its params, or is named as one without."""
    assert sorted([*CLASSES, *WITHOUT_CLASSES]) == METHODS
    requests = [method for method in METHODS if schemas.kind(method) == "request"]
    assert [method for method in sorted(CLASSES) if CLASSES[method][1]] == requests


@pytest.mark.parametrize("method", CLASSES)
def test_params_have_the_fields_of_their_class(method: str) -> None:
    """Names, types, requiredness and defaults."""
    compare_any(CLASSES[method][0], schemas.schema(method)["properties"]["params"])


@pytest.mark.parametrize("method", [method for method, (_, result) in CLASSES.items() if result])
def test_results_have_the_fields_of_their_class(method: str) -> None:
    """All are required, save those that are left out when None."""
    cls = CLASSES[method][1]
    assert cls is not None
    names = [wire.camel_case(field.name) for field in dataclasses.fields(cls)]
    compare(cls, schemas.schema(method)["properties"]["result"], names)


# ---- verdicts ------------------------------------------------------------------------------------------------------


def test_absent_params_are_an_empty_object() -> None:
    """For a method that takes any, and as a missing field for one that wants some."""
    assert schemas.validate_params("initialized", None) == {}
    assert fault("fs/readFile", None) == "params.path: is missing"


@pytest.mark.parametrize("params", [[], 5, "x", True, ["a"]])
def test_params_are_an_object(params: Any) -> None:
    """Nothing else fits, except where they are ignored."""
    assert fault("fs/readFile", params) == f"params: {params!r} is not of type 'object'"
    assert schemas.validate_params("initialized", params) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"argv": []},
        {"argv": ["a\0b", ""]},
        {"cwd": "relative"},
        {"cwd": ""},
        {"env": {"": "x", "A=B": "y\0"}},
        {"processId": ""},
        {"processId": "x" * 100_000},
        {"processId": "\ud800"},
        {"env": {"\ud800": "\udfff"}},
        {"sandbox": None, "size": None, "envPolicy": None, "windowBytes": None, "pipeStdin": None, "arg0": None},
        {"sandbox": {"mode": "none", "more": [1]}},
        {"sandbox": {"mode": "hostDefault"}},
        {"size": {}},
        {"size": {"rows": 1.0, "cols": None}},
        {"envPolicy": {"inherit": None, "set": None, "exclude": None, "includeOnly": ["*"], "unknown": 1}},
        {"windowBytes": 2**53 - 1},
        {"unknown": nested(100_000)},
        {"unknown": [10**999, float("inf"), "\ud800"]},
        {"\ud800": 1},
    ],
    ids=lambda change: ascii(list(change))[:30],
)
def test_what_only_the_handler_may_judge_passes(change: dict[str, Any]) -> None:
    """Empty, relative and odd values, null for whatever is optional, and anything in an unknown member."""
    params = {**START, **change}
    assert schemas.validate_params("process/start", params) is params


def test_base64_is_not_judged() -> None:
    """Its error and the order of its check belong to the handler."""
    schemas.validate_params("process/write", {"processId": "p", "chunk": "not base64!"})


@pytest.mark.parametrize(
    "method, change, words",
    [
        ("process/start", {"argv": 5}, "params.argv: 5 is not of type 'array'"),
        ("process/start", {"argv": ["a", 5]}, "params.argv[1]: 5 is not of type 'string'"),
        ("process/start", {"env": {"PATH": None}}, "params.env.PATH: None is not of type 'string'"),
        ("process/start", {"tty": 1}, "params.tty: 1 is not of type 'boolean'"),
        ("process/start", {"tty": None}, "params.tty: None is not of type 'boolean'"),
        ("process/start", {"arg0": 5}, "params.arg0: 5 is not of type 'string', 'null'"),
        ("process/start", {"sandbox": {}}, "params.sandbox.mode: is missing"),
        ("process/start", {"sandbox": {"mode": "x"}}, "params.sandbox.mode: 'x' is not one of ['none', 'hostDefault']"),
        ("process/start", {"size": {"rows": 0}}, "params.size.rows: 0 is less than the minimum of 1"),
        ("process/start", {"size": {"cols": 65536}}, "params.size.cols: 65536 is greater than the maximum of 65535"),
        ("process/start", {"size": {"cols": 1.5}}, "params.size.cols: 1.5 is not of type 'integer', 'null'"),
        ("process/start", {"windowBytes": True}, "params.windowBytes: True is not of type 'integer', 'null'"),
        ("process/start", {"windowBytes": 0}, "params.windowBytes: 0 is less than the minimum of 1"),
        ("process/read", {"afterSeq": -1}, "params.afterSeq: -1 is less than the minimum of 0"),
        ("process/read", {"waitMs": float("inf")}, "params.waitMs: inf is not of type 'integer', 'null'"),
        ("process/read", {"waitMs": 1e308}, "params.waitMs: 1e+308 is greater than the maximum of 86400000"),
        ("process/start", {"env": {"\ud800\n": 5}}, "params.env.\\ud800\\n: 5 is not of type 'string'"),
        ("process/start", {"argv": "\ud800"}, "params.argv: '\\ud800' is not of type 'array'"),
    ],
)
def test_a_fault_is_told_with_its_field(method: str, change: dict[str, Any], words: str) -> None:
    """The message names the field and says what is wrong with the value; the error is -32602."""
    assert fault(method, {**START, **change}) == words


@pytest.mark.parametrize("name", START)
def test_a_missing_field_is_named(name: str) -> None:
    """One sentence for each."""
    params = {field: value for field, value in START.items() if field != name}
    assert fault("process/start", params) == f"params.{name}: is missing"


@pytest.mark.parametrize(
    "change",
    [
        {"argv": "x" * 10_000_000},
        {"argv": [["y" * 1_000_000] * 3]},
        {"env": {"N" * 1_000_000: 5}},
        {"size": {"rows": 10**999}},
        {"processId": list(range(100_000))},
        {"processId": nested(200)},
    ],
    ids=lambda change: str(*change),
)
def test_a_message_is_short(change: dict[str, Any]) -> None:
    """However long the value: the beginning of what is wrong and the end, where it says why."""
    words = fault("process/start", {**START, **change})
    assert len(words) < 500
    assert words.startswith(f"params.{next(iter(change))}")
    assert "..." in words
    assert words.endswith(("is not of type 'array'", "is not of type 'string'", "the maximum of 65535"))


@pytest.mark.parametrize("depth", [300, 1_000, 10_000, 100_000])
def test_deep_nesting_is_a_fault_like_any_other(depth: int) -> None:
    """No depth raises anything but InvalidParams."""
    assert fault("process/start", {**START, "processId": nested(depth)}).startswith("params")


def test_a_result_is_judged_too() -> None:
    """With the same words, as a ValueError."""
    schemas.validate_result("process/terminate", {"running": True, "more": 1})
    with pytest.raises(ValueError, match=r"^result\.running: 'yes' is not of type 'boolean'$"):
        schemas.validate_result("process/terminate", {"running": "yes"})
    with pytest.raises(ValueError, match=r"^result: None is not of type 'object'$"):
        schemas.validate_result("process/terminate", None)


def test_the_slow_library_is_only_imported_for_a_fault() -> None:
    """Importing the module and judging good params must not take its 50 ms."""
    program = (
        "import sys; from execsrv import schemas\n"
        "schemas.validate_params('fs/readFile', {'path': '/'})\n"
        "assert 'jsonschema' not in sys.modules\n"
        "try: schemas.validate_params('fs/readFile', {})\n"
        "except schemas.InvalidParams: assert 'jsonschema' in sys.modules\n"
        "else: sys.exit('no fault was found')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, cwd=FOLDER.parent)


# ---- both libraries ------------------------------------------------------------------------------------------------

ODD_VALUES: list[Any] = [None, True, False, 0, 1, -1, 1.0, 1.5, -0.0, 2**31, 2**53, 2**63, 2**64, 10**400, 1e308]
ODD_VALUES += ["", "x", "none", "pty", "\ud800", "\0", [], [1], ["x"], {}, {"mode": "none"}, {"x": 1}, {"\ud800": "x"}]


def mutant(value: Any, dice: random.Random) -> Any:
    """A copy of ``value`` with one thing in it changed, left out or added."""
    value = copy.deepcopy(value)
    holder, keys = value, list(value)
    while isinstance(holder, (dict, list)) and keys and dice.random() < 0.5:
        inner = holder[dice.choice(keys)]
        if not isinstance(inner, (dict, list)):
            break
        holder, keys = inner, list(inner) if isinstance(inner, dict) else list(range(len(inner)))
    if keys and dice.random() < 0.2:
        del holder[dice.choice(keys)]
    elif isinstance(holder, list):
        holder.append(dice.choice(ODD_VALUES))
    else:
        holder[dice.choice([*keys, "unknown"])] = dice.choice(ODD_VALUES)
    return value


@pytest.mark.parametrize("method, part", PARTS)
def test_both_libraries_agree_on_mutated_examples(method: str, part: str) -> None:
    """Sixty of each; a refusal names the field and is short."""
    dice = random.Random(f"{method} {part}")
    reference = Draft202012Validator(schemas.schema(method)["properties"][part])
    examples = [example[part] for example in schemas.schema(method)["examples"]]
    for _ in range(60):
        value = mutant(dice.choice(examples), dice)
        try:
            if part == "params":
                schemas.validate_params(method, value)
            else:
                schemas.validate_result(method, value)
        except (InvalidParams, ValueError) as error:
            assert not reference.is_valid(value), value
            assert str(error).startswith(f"{part}.") and len(str(error)) < 500
        else:
            assert reference.is_valid(value), value
