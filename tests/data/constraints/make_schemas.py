"""Writes schemas.json: which JSON texts are values that a schema allows, by jsonschema 4.26.0 (Draft 2020-12) for Python 3.11.

    pip install 'jsonschema[format]==4.26.0'
    python tests/data/constraints/make_schemas.py

Numbers with a fraction are read as Decimal, so that nothing is rounded. The texts are written as a grammar of zinc writes values: no white
space, members in the order of the schema, numbers without an exponent unless the schema has one.
"""

import json
import random
from decimal import Decimal
from pathlib import Path

from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for


def load(text):
    return json.loads(text, parse_float=Decimal)


CASES = {}


def case(kind, schema, *texts):
    CASES.setdefault(kind, []).append((schema if isinstance(schema, str) else json.dumps(schema), list(texts)))


# Numbers, digit by digit.
for number in ["1234567890123456789", "9223372036854775807", "-9223372036854775808", "18446744073709551615", "9007199254740993",
               "-9007199254740993", "123456789012345678901234567890", "0.1", "1.2345678901234567890123", "1E400", "-0.5", "100", "0"]:
    near = {"1234567890123456768", "9223372036854775808", "9223372036854775806", "18446744073709551616", "9007199254740992",
            "123456789012345678901234567891", "1.2345678901234567890124", "0.10000000000000000001", "-100"}
    case("numbers", '{"const": %s}' % number, number, *sorted(near - {number}))
    case("numbers", '{"enum": [%s, "x"]}' % number, number, '"x"', *sorted(near - {number})[:3])
    case("numbers", '{"properties": {"a": {"items": {"const": %s}}}, "required": ["a"], "type": "object"}' % number,
         '{"a":[%s,%s]}' % (number, number), '{"a":[9007199254740992]}')
for low, high in [("9223372036854775807", "9223372036854775809"), ("-9223372036854775809", "-9223372036854775807"),
                  ("18446744073709551614", "18446744073709551616"), ("9007199254740993", "9007199254740995"), ("-3", "12"),
                  ("0", "0"), ("99", "101"), ("-100", "-98"), ("99999999999999999999999", "100000000000000000000001")]:
    first, last = int(low), int(high)
    around = sorted({str(value) for value in [first - 2, first - 1, first, first + 1, last - 1, last, last + 1, last + 2]}, key=int)
    for schema in ['{"type": "integer", "minimum": %s, "maximum": %s}', '{"type": "integer", "exclusiveMinimum": %s, "maximum": %s}',
                   '{"type": "integer", "minimum": %s, "exclusiveMaximum": %s}', '{"type": "number", "minimum": %s, "maximum": %s}',
                   '{"type": "number", "exclusiveMinimum": %s, "exclusiveMaximum": %s}']:
        if low != high or "exclusive" not in schema:
            case("numbers", schema % (low, high), *around)
for low, high in [("0.1", "0.3"), ("-0.25", "1.5"), ("1.0000000000000000000001", "1.0000000000000000000003"), ("-2.5", "-1.25"), ("9.9", "10.05")]:
    texts = ["0", "0.1", "0.10", "0.05", "0.2", "0.3", "0.30", "0.31", "0.300001", "-0.25", "-0.2500", "-0.26", "-0.1", "1", "1.5", "1.50", "1.51",
             "1.0000000000000000000001", "1.0000000000000000000002", "1.0000000000000000000003", "1.00000000000000000000031", "-1.25", "-1.2",
             "-2", "-2.5", "-2.51", "-3", "9.9", "9.89", "10", "10.0", "10.05", "10.06", "10.1"]
    for schema in ['{"type": "number", "minimum": %s, "maximum": %s}', '{"type": "number", "exclusiveMinimum": %s, "exclusiveMaximum": %s}']:
        case("numbers", schema % (low, high), *texts)
    case("numbers", '{"type": "number", "minimum": %s}' % low, *texts)
    case("numbers", '{"type": "number", "exclusiveMaximum": %s}' % high, *texts)
for step, texts in [("7", ["0", "7", "-14", "15", "700000000000000000007", "700000000000000000008"]), ("0.01", ["0.07", "0.075", "1", "-0.30"]),
                    ("2.5", ["2.5", "5", "-7.5", "4"]), ("1e1", ["10", "15", "20"]), ("3", ["9223372036854775806", "9223372036854775807"])]:
    case("numbers", '{"type": "number", "multipleOf": %s}' % step, *texts)
    case("numbers", '{"type": "number", "multipleOf": %s, "minimum": 5, "maximum": 30}' % step, *texts, "5", "7.5", "21", "30")
case("numbers", '{"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer"}', "12", "24", "4", "6", "8", "0", "-12")
case("numbers", '{"type": "integer", "multipleOf": 0.5}', "1", "2", "0")
case("numbers", '{"enum": [1, 2, 3, 10], "minimum": 2, "exclusiveMaximum": 10}', "1", "2", "3", "10")
case("numbers", '{"enum": [1.5, 3, 4.5], "multipleOf": 3}', "1.5", "3", "4.5")

# References.
POINTERS = {"a/b": "a~1b", "a~b": "a~0b", "~1": "~01", "é": "%C3%A9", "a b": "a%20b", "": "", "a%25": "a%2525", "%2F": "%252F", "0": "0"}
for name, token in POINTERS.items():
    case("references", {"$ref": "#/$defs/" + token, "$defs": {name: {"const": 3}, "other": {"const": 4}}}, "3", "4")
case("references", {"$ref": "#/$defs/a%7E1b", "$defs": {"a/b": {"const": 3}}}, "3", "4")
case("references", {"type": "array", "prefixItems": [{"const": 1}, {"$ref": "#/prefixItems/0"}], "items": False}, "[1,1]", "[1,2]", "[]")
case("references", {"anyOf": [{"const": 1}, {"type": "array", "items": {"$ref": "#"}}]}, "1", "[1]", "[[1],[]]", "2", "[2]")
case("references", {"$ref": "#word", "$defs": {"x": {"$anchor": "word", "type": "string"}}}, '"a"', "1")
case("references", {"$id": "https://example.org/s", "$ref": "https://example.org/s#/$defs/x", "$defs": {"x": {"const": 1}}}, "1", "2")
case("references", {"$ref": "urn:x", "$defs": {"x": {"$id": "urn:x", "$ref": "#/$defs/y", "$defs": {"y": {"const": 1}}}, "y": {"const": 2}}},
     "1", "2")
case("references", {"$ref": "#/$defs/list", "$defs": {"list": {"type": "object", "properties": {"next": {"$ref": "#/$defs/list"}},
     "additionalProperties": False}}}, "{}", '{"next":{}}', '{"next":{"next":{}}}', '{"next":1}', '{"other":{}}')
case("references", {"$ref": "#/$defs/a", "minimum": 3, "$defs": {"a": {"type": "integer", "maximum": 4}}}, "2", "3", "4", "5", '"x"')
case("references", {"allOf": [{"$ref": "#/$defs/t"}], "properties": {"n": {"type": "integer"}}, "$defs": {"t": {"type": "object",
     "properties": {"n": {"minimum": 2}, "t": {"$ref": "#"}}}}}, "{}", '{"n":2}', '{"n":1}', '{"n":2,"t":{"n":3}}', '{"n":2,"t":{"n":1}}')

# What restricts nothing.
LOOSE = [{"format": "password"}, {"format": "no-such-format"}, {"uniqueItems": False}, {"minItems": 0}, {"minProperties": 0},
         {"if": {"type": "string"}}, {"then": {"type": "string"}}, {"else": False}, {"if": {"type": "string"}, "then": True, "else": {}},
         {"additionalProperties": True}, {"propertyNames": True}, {"propertyNames": {}}, {"dependentRequired": {}}, {"dependentRequired": {"a": []}},
         {"dependentSchemas": {}}, {"dependentSchemas": {"a": True}}, {"not": False}, {"contains": {"type": "string"}, "minContains": 0},
         {"minContains": 3}, {"maxContains": 0}, {"title": "t", "description": "d", "default": 1, "examples": [2]}, {"deprecated": True},
         {"readOnly": True, "writeOnly": True}, {"$comment": "c"}, {"contentEncoding": "base64", "contentMediaType": "image/png"},
         {"contentSchema": False}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}, {"x-order": 1}, {"nullable": True},
         {"maxLenght": 0}, {"unevaluatedProperties": True}, {"unevaluatedItems": {}}, {"$defs": {"a": False}}, {"definitions": {"a": False}},
         {"minLength": 0.0}, {"allOf": []}, {"allOf": [True, {}]}, {"anyOf": [True, False]}, {"$vocabulary": {}}, {"$anchor": "a"},
         {"items": True}, {"prefixItems": [True, {}]}, {"patternProperties": {}}, {"patternProperties": {"^a": True}}, {"required": []},
         {"properties": {}}, {"additionalItems": False}]
VALUES = ["null", "true", "-1.5e3", '"a\\n"', '[1,1,"x",[]]', '{"a":1,"b":{"a":[]}}', "[]", "{}"]
for schema in LOOSE:
    if schema != {"allOf": []}:
        Draft202012Validator.check_schema({key: value for key, value in schema.items()})
    case("loose", schema, *VALUES)
case("loose", {"maxLength": 2.0, "type": "string"}, '"ab"', '"abc"')
case("loose", {"minItems": 1e0, "maxItems": 20e-1, "items": {"const": 1}, "type": "array"}, "[]", "[1]", "[1,1]", "[1,1,1]")
case("loose", {"uniqueItems": True, "maxItems": 1, "type": "array"}, "[]", "[1]", "[1,1]")
case("loose", {"contains": True, "type": "array"}, "[]", "[1]")

# Alternatives of which exactly one may match.
case("oneOf", {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {"a": {"const": "a"}, "b": {"const": "b"}}}, '"a"', '"b"', '"c"')
case("oneOf", {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
    "a": {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind"]},
    "b": {"type": "object", "properties": {"kind": {"const": "b"}, "s": {"type": "string"}}, "required": ["kind"]}}},
    '{"kind":"a","n":1}', '{"kind":"b","s":"x"}', '{"kind":"a","n":"x"}', '{"kind":"c"}')
case("oneOf", {"oneOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}, "1", '"x"', "null", "true", "1.5")
case("oneOf", {"oneOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 4}]}, "3", "4", "-9", "99")
case("oneOf", {"type": "object", "required": ["k"], "oneOf": [{"properties": {"k": {"enum": [1, 2]}}}, {"properties": {"k": {"enum": [3, "x"]}}}]},
     '{"k":1}', '{"k":3}', '{"k":"x"}', '{"k":4}', "{}")
case("oneOf", {"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}]}, '"ax"', '"bx"', '"cx"', '"ab"')
case("oneOf", {"oneOf": [{"type": "string", "maxLength": 2}, {"type": "string", "minLength": 3}]}, '""', '"ab"', '"abc"')
case("oneOf", {"oneOf": [{"type": "array", "prefixItems": [{"const": 1}], "minItems": 1}, {"type": "array", "prefixItems": [{"const": 2}], "minItems": 1}]},
     "[1]", "[2]", "[3]", "[]", "[1,5]")
case("oneOf", {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "object", "properties": {"a": False}}]}, "{}", '{"a":1}', '{"b":1}', "1")
case("oneOf", {"oneOf": [{"type": ["string", "null"]}, {"type": ["number", "null"]}]}, "null", '"x"', "1.5", "true")
case("oneOf", {"oneOf": [{"type": ["string", "boolean"], "minLength": 2}, {"type": ["integer", "boolean", "null"]}, {"type": ["null", "object"],
     "required": ["a"]}]}, "null", "true", "false", '"xy"', '"x"', "3", "3.5", '{"a":1}', "{}")
case("oneOf", {"oneOf": [{"type": ["string", "null"]}, {"enum": [1, None]}], "type": ["string", "integer"]}, "null", '"x"', "1", "2")
case("oneOf", {"oneOf": [True, {"type": "null"}, {"type": "null", "minimum": 3}]}, "null")
case("oneOf", {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "{}", '{"a":1}', '{"b":1}', '{"a":1,"b":1}', '{"a":1,"c":1}', "1", "[]")
case("oneOf", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}, "d": {"type": "integer"}},
     "additionalProperties": False, "oneOf": [{"required": ["a", "b"]}, {"type": "object", "required": ["b", "c"]}, {"required": ["d"]}]},
     "{}", '{"a":1}', '{"b":1}', '{"a":1,"b":2}', '{"b":2,"c":3}', '{"a":1,"b":2,"c":3}', '{"a":1,"d":4}', '{"a":1,"b":2,"d":4}', '{"d":4}',
     '{"c":3,"d":4}', '{"a":1,"c":3}', '{"a":1,"b":"x"}', '{"a":1,"c":3,"d":4}')
case("oneOf", {"oneOf": [{"required": ["a"]}, {"required": ["a", "b"]}]}, '{"a":1}', '{"a":1,"b":1}', '{"b":1}', "{}")
case("oneOf", {"oneOf": [{"required": []}, {"required": ["a"]}]}, '{"a":1}', '{"b":1}', "{}", "3")
case("oneOf", {"oneOf": [{"required": ["a"]}]}, '{"a":1}', '{"b":1}', "3")

# Objects and arrays.
case("objects", {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "minProperties": 2,
     "additionalProperties": False}, "{}", '{"a":1}', '{"a":1,"b":2}', '{"a":1,"c":3}', '{"b":2,"c":3}', '{"a":1,"b":2,"c":3}', '{"a":2,"b":2}')
case("objects", {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "maxProperties": 1, "required": ["b"]}, '{"b":2}',
     '{"a":1,"b":2}', '{"b":2,"x":1}', "{}")
case("objects", {"type": "object", "properties": {"a": {"const": 1}}, "minProperties": 2, "maxProperties": 3}, '{"a":1}', '{"a":1,"x":0}',
     '{"a":1,"x":0,"y":0}', '{"a":1,"x":0,"y":0,"z":0}')
case("objects", {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 5}}, "additionalProperties": {"type": "null"}},
     '{"a":1}', '{"ab":1}', '{"ab":5}', '{"xb":5}', '{"xb":"s"}', '{"xb":4}', '{"x":null}', '{"x":1}', '{"a":"s"}', "{}")
case("objects", {"type": "object", "properties": {"ab": {"maximum": 9}}, "patternProperties": {"^a": {"type": "integer"}},
     "additionalProperties": False}, '{"ab":9}', '{"ab":10}', '{"ab":"x"}', '{"ac":10}', '{"b":1}')
case("objects", {"type": "object", "propertyNames": {"pattern": "^[a-c]{1,2}$"}, "properties": {"a": {"const": 1}, "long": {"const": 2}}},
     '{"a":1}', '{"long":2}', '{"bb":0}', '{"bbb":0}', '{"d":0}')
case("objects", {"type": "object", "propertyNames": {"enum": ["x", "y"]}}, '{"x":1}', '{"y":1}', '{"z":1}', '{}')
case("objects", {"type": "object", "properties": {"a": {"const": 1}}, "unevaluatedProperties": False}, '{"a":1}', '{"b":1}', "{}")
case("objects", {"const": {"a": [1, {"b": None}], "c": "d"}}, '{"a":[1,{"b":null}],"c":"d"}', '{"a":[1,{"b":0}],"c":"d"}', '{"a":[1,{"b":null}]}')
case("objects", {"enum": [[1, 2], {"a": 1}, "x", 3, None, False]}, "[1,2]", '{"a":1}', '"x"', "3", "null", "false", "true", "[1]", "[1,2,3]", "{}")
case("objects", {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"a": {"maxLength": 1}, "b": False}}],
     "type": "object"}, '{"a":"x"}', '{"a":"xy"}', '{"a":1}', '{"a":"x","b":1}', '{"a":"x","c":1}')
case("objects", {"type": "object", "not": {"required": ["a"]}}, "{}", '{"a":1}', '{"b":1}')
case("objects", {"not": {"type": ["object", "array", "null"]}}, "1", '"x"', "true", "{}", "[]", "null")
case("objects", {"type": "array", "items": [{"const": 1}, {"const": 2}], "$schema": "http://json-schema.org/draft-07/schema#"}, "[1]")
case("objects", {"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3}, "minItems": 1, "maxItems": 4}, "[]", "[1]",
     "[1,2]", "[1,2,3]", "[1,2,3,3]", "[1,2,3,3,3]", "[2]", "[1,3]")
case("objects", {"type": "array", "prefixItems": [{"const": 1}, False]}, "[]", "[1]", "[1,2]")
case("objects", {"type": "array", "items": {"const": 1}, "minItems": 5, "maxItems": 9}, *["[%s]" % ",".join("1" * n) for n in range(3, 12)])
case("objects", {"type": "array", "items": {"const": 1}, "maxItems": 22}, *["[%s]" % ",".join("1" * n) for n in (0, 1, 2, 11, 12, 21, 22, 23, 24)])
case("objects", {"type": "array", "items": {"const": 1}, "minItems": 3}, *["[%s]" % ",".join("1" * n) for n in (0, 1, 2, 3, 4, 9)])
case("objects", {"type": "array", "items": False}, "[]", "[1]")
case("objects", {"type": ["integer", "string"], "minimum": 3, "minLength": 2}, "3", "2", '"ab"', '"a"', "3.5", "null")
case("objects", {"type": ["integer", "number"]}, "3", "3.5", '"x"')

# Patterns: where they are found in a string, and which characters JSON escapes.
for pattern in ["b", "^b", "b$", "^b$", "^\\S+$", "a|^b$", "\\\\", "\"", "^[^x]*$", "\\d{2}", "^(a|b){2,3}$", "\n"]:
    case("patterns", {"type": "string", "pattern": pattern},
         *[json.dumps(text, ensure_ascii=False) for text in ["b", "ab", "ba", "aba", "", "x", "12", "a12b", "\\", 'q"q', "a\nb", "aab", "bbbb", "é x"]])
case("patterns", {"type": "string", "pattern": "^a", "minLength": 2, "maxLength": 3}, '"a"', '"ab"', '"abc"', '"abcd"', '"bc"')
case("patterns", {"enum": ["ab", "b", "abc"], "pattern": "^a", "maxLength": 2}, '"ab"', '"b"', '"abc"')
case("patterns", {"allOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"}, '"ab"', '"ba"', '"a"', '"b"')

# Where jsonschema looks at less than the RFC (mail addresses: for an `@`; durations: for signs, too), such texts are left out.
FORMATS = {
    "date": ["2024-02-29", "2023-02-29", "2000-02-29", "1900-02-29", "2023-02-28", "2023-04-31", "2023-12-31", "2023-13-01", "2023-00-10", "0001-01-01",
             "0000-01-01", "9999-12-31", "2023-1-1", "2023-06-00", "2023-06-30x", "20230630", "2400-02-29", "2100-02-29", "2004-02-29", "0004-02-29"],
    "time": ["12:00:00Z", "23:59:59.123+01:00", "24:00:00Z", "12:60:00Z", "12:00:61Z", "12:00:00", "12:00:00-23:59", "12:00:00+24:00", "1:00:00Z",
             "12:00:00z", "12:00:00.Z"],
    "date-time": ["2024-02-29T12:00:00Z", "2023-02-29T12:00:00Z", "2023-06-30t12:00:00z", "2023-06-30 12:00:00Z", "2023-06-30T12:00:00",
                  "2023-06-30T12:00:00.5+05:30", "2023-06-31T12:00:00Z"],
    "duration": ["P1Y", "P1Y2M3D", "P1Y2M3DT4H5M6S", "PT1H", "PT1M", "P1W", "P", "PT", "P1", "P1S", "PT1D", "P1YT", "1Y", "P1W1D"],
    "ipv4": ["1.2.3.4", "255.255.255.255", "256.1.1.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "0.0.0.0", "1.2.3.-4"],
    "ipv6": ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7", "1::8", "1:2::7:8", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1::2::3", ":::",
             "12345::", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9", ":1", "1:", "fe80::1%eth0", "1::1.2.3.4", "::256.1.1.1", "1:2:3::5:6:7:8",
             "1:2:3:4::5:6:7:8"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000", "123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400",
             "g23e4567-e89b-12d3-a456-426614174000"],
    "hostname": ["example.org", "a", "a-b.c", "-a.b", "a-.b", "a..b", "a_b", "a" * 63, "a" * 64, "xn--bcher-kva.example", ".".join(["a" * 63] * 4), "a b"],
    "email": ["a@b.org", "a.b+c@d", "ab", "joe.bloggs@example.com"],
    "uri": ["http://example.org/a?b=c#d", "mailto:a@b", "urn:isbn:1", "/a", "a b:c", "http://[::1]/", "http://exa mple.org", "ftp://u:p@h:21/", "http://a/%zz",
            "http://a/%20", "1a:b", "x:", "http://[::1", "http://a/<b>", "http://a/{b}"],
    "json-pointer": ["", "/", "/a/b", "/a~0b/c~1d", "a", "/~", "/~2", "/0/1"],
    "password": ["", "x", "é\n"],
}
for name, texts in FORMATS.items():
    case("formats", {"type": "string", "format": name}, *[json.dumps(text, ensure_ascii=False) for text in texts])

# Random schemas with random values that are near to what they allow.
RANDOM = random.Random(7)


def some_schema(depth, names=("A", "B")):
    kind = RANDOM.randrange(13 if depth else 7)
    if kind == 0:
        return {"type": "integer", **RANDOM.choice([{}, {"minimum": RANDOM.randrange(-20, 5)}, {"maximum": RANDOM.randrange(20)}, {"multipleOf": RANDOM.randrange(1, 7)}])}
    if kind == 1:
        return {"type": "string", **RANDOM.choice([{}, {"maxLength": RANDOM.randrange(4)}, {"minLength": RANDOM.randrange(4)}, {"pattern": RANDOM.choice(["^a", "b$", "x?y|z"])}])}
    if kind == 2:
        return {"enum": RANDOM.sample([1, 2, "a", "b", None, True, [1], {"a": 1}], 3)}
    if kind == 3:
        return {"const": RANDOM.choice([1, "a", None, [1, "b"], {"a": 1}])}
    if kind == 4:
        return {"type": RANDOM.choice(["null", "boolean", "number", ["integer", "null"], ["string", "array"]])}
    if kind == 5:
        return RANDOM.choice([True, {}, False])
    if kind == 6:
        return {"$ref": "#/$defs/" + RANDOM.choice(names)}
    if kind in (7, 8):
        schema = {"type": "object", "properties": {name: some_schema(depth - 1) for name in RANDOM.sample("abc", RANDOM.randrange(1, 4))}}
        if RANDOM.random() < 0.6:
            schema["required"] = RANDOM.sample("abc", RANDOM.randrange(3))
        if RANDOM.random() < 0.5:
            schema["additionalProperties"] = some_schema(depth - 1)
        if RANDOM.random() < 0.3:
            schema["patternProperties"] = {RANDOM.choice(["^a", "c|d", "."]): some_schema(depth - 1)}
        if RANDOM.random() < 0.2:
            schema["maxProperties"] = RANDOM.randrange(3)
        return schema
    if kind == 9:
        schema = {"type": "array", "items": some_schema(depth - 1)}
        if RANDOM.random() < 0.5:
            schema["prefixItems"] = [some_schema(depth - 1) for _ in range(RANDOM.randrange(1, 3))]
        if RANDOM.random() < 0.4:
            schema["maxItems"] = RANDOM.randrange(4)
        if RANDOM.random() < 0.4:
            schema["minItems"] = RANDOM.randrange(3)
        return schema
    if kind == 10:
        return {"anyOf": [some_schema(depth - 1) for _ in range(2)]}
    if kind == 11:
        return {"allOf": [some_schema(depth - 1) for _ in range(2)]}
    return {"oneOf": [some_schema(depth - 1) for _ in range(2)]}


def some_value(depth):
    kind = RANDOM.randrange(8 if depth else 6)
    if kind < 2:
        return RANDOM.choice([0, 1, 2, 6, 12, -4, 1.5])
    if kind < 4:
        return RANDOM.choice(["", "a", "b", "ab", "xy", "abc"])
    if kind < 6:
        return RANDOM.choice([None, True, False])
    if kind == 6:
        return [some_value(depth - 1) for _ in range(RANDOM.randrange(4))]
    return {name: some_value(depth - 1) for name in sorted(RANDOM.sample("abcd", RANDOM.randrange(4)))}


def near(schema, root, depth=4):
    """A value that the schema is likely to allow."""
    if RANDOM.random() < 0.12 or depth == 0 or not isinstance(schema, dict):
        return some_value(1)
    if "$ref" in schema:
        return near(root["$defs"][schema["$ref"][-1]], root, depth - 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return near(RANDOM.choice(schema[key]), root, depth - 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return RANDOM.choice(schema["enum"])
    if schema.get("type") == "object":
        value = {name: near(part, root, depth - 1) for name, part in schema["properties"].items() if name in schema.get("required", []) or RANDOM.random() < 0.5}
        for name in schema.get("required", []):
            value.setdefault(name, some_value(1))
        if RANDOM.random() < 0.3:
            value["d"] = near(schema.get("additionalProperties", True), root, depth - 1)
        return value
    if schema.get("type") == "array":
        prefix = schema.get("prefixItems", [])
        length = RANDOM.randrange(schema.get("minItems", 0), schema.get("minItems", 0) + 4)
        return [near(prefix[i] if i < len(prefix) else schema["items"], root, depth - 1) for i in range(length)]
    return some_value(1)


for _ in range(160):
    schema = some_schema(3)
    schema = {"allOf": [schema]} if isinstance(schema, bool) else dict(schema)
    schema["$defs"] = {"A": some_schema(2), "B": some_schema(2)}
    texts = {json.dumps(near(schema, schema), separators=(",", ":")) for _ in range(14)}
    CASES.setdefault("random", []).append((json.dumps(schema), sorted(texts)))

lines = []
for kind, cases in CASES.items():
    for schema, texts in cases:
        loaded = load(schema)
        validator = validator_for(loaded, default=Draft202012Validator)(loaded, format_checker=Draft202012Validator.FORMAT_CHECKER)
        valid, invalid = [], []
        for text in texts:
            try:
                (valid if validator.is_valid(load(text)) else invalid).append(text)
            except RecursionError:
                pass  # A schema that refers to itself without an end has no meaning.
        lines.append(json.dumps({"kind": kind, "schema": schema, "valid": valid, "invalid": invalid}, ensure_ascii=False))
Path(__file__).with_name("schemas.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
print({kind: len(cases) for kind, cases in CASES.items()})
