#!/usr/bin/env python3
"""Writes jinja.json: templates and what Jinja2 makes of them, set up as transformers sets it up for chat templates.

Made with Python 3.11.7, Jinja2 3.1.6 and MarkupSafe 3.0.3. Run it in this folder: `python3 make_jinja.py`.

Templates come from jinja_templates.txt, one a line as a JSON string under headings that name their kind; lines that
begin with '!' are templates that Jinja2 renders and zinc refuses, in each case for the reason in the heading.
"""

import datetime
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = json.loads(open("jinja.json").read())["variables"]


class Generation(jinja2.ext.Extension):
    """The statement 'generation', which prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(format):
    return datetime.datetime.now().strftime(format)


def environment():
    extensions = [Generation, jinja2.ext.loopcontrols]
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def case(template):
    try:
        # transformers always gives these.
        given = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": False}
        return {"template": template, "rendered": environment().from_string(template).render(**VARIABLES, **given)}
    except Exception as error:
        return {"template": template, "error": type(error).__name__}


def main():
    cases = []
    for line in open("jinja_templates.txt", encoding="utf-8"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        made = case(json.loads(line.removeprefix("!")))
        if line.startswith("!"):
            assert "error" not in made, made
            # What Python writes here may differ from run to run.
            made = {"template": made["template"], "refused": True}
        cases.append(made)
    with open("jinja.json", "w", encoding="utf-8") as out:
        json.dump({"variables": VARIABLES, "cases": cases}, out, ensure_ascii=False, indent=1)
        out.write("\n")


main()
