"""Chat templates give the text that jinja2 gives with transformers' settings; skipped where jinja2 is missing.

usage: chat_templates.py HOUSE_FOLDER

Templates in the formats of Qwen, SmolLM2, Llama 3, Gemma, Phi and Mistral, written for this test with the constructs that theirs use, for
conversations drawn at random; and small expressions. SmolLM2's own template is compared if KOINE_TEST_DATA has smollm2.gguf.
"""
import json
import os
import random
import tempfile

from package import Complaint, Skipped, case, end_without, expect, expect_equal, raises, run

import koine

FOLDER = tempfile.TemporaryDirectory(prefix="koine-test-")
with open(os.path.join(FOLDER.name, "tokenizer.json"), "w", encoding="utf-8") as _file:
    _file.write(json.dumps({"model": {"type": "WordLevel", "vocab": {"a": 0, "<s>": 1, "</s>": 2}}}))
with open(os.path.join(FOLDER.name, "tokenizer_config.json"), "w", encoding="utf-8") as _file:
    _file.write(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))


def vocabulary(template):
    with open(os.path.join(FOLDER.name, "chat_template.jinja"), "w", encoding="utf-8") as file:
        file.write(template)
    return koine.Vocabulary(FOLDER.name)


@case
def what_is_not_in_the_subset_is_refused_with_its_place():
    for template, place, part in (
            ("a\n  {% macro f() %}{% endmacro %}", ":2:6:", "'macro'"), ("{{ x|shuffle }}", ":1:5:", "filter 'shuffle'"),
            ("{{ x is prime }}", ":1:6:", "test 'prime'"), ("{{ cycler(1) }}", ":1:4:", "function 'cycler'"),
            ("{{ x.format(1) }}", ":1:5:", "method 'format'"), ("{% if x %}", ":1:11:", "endif"), ("{{ 'a }}", ":1:9:", "quote"),
            ("{{ x.y.z }}", ":1:5:", "undefined"), ("{{ 1 + 'a' }}", ":1:4:", "an integer + a string"), ("{{ messages }}", ":1:1:", "a list"),
            ("{{ raise_exception('no roles') }}", ":1:4:", "no roles"), ("{% set a, b = 1 %}", ":1:9:", "several names"),
            ("{% endfor %}", "", "endfor"), ("{{ 1 < 2 < 3 }}", ":1:4:", "chain"), ("{{ " + "(" * 200 + "1" + ")" * 200 + " }}", "", "nesting"),
            ("{% for x in range(5000) %}{% for y in range(5000) %}.{% endfor %}{% endfor %}", "", "too much time")):
        with raises(koine.KoineError, place, part):
            vocabulary(template).chat([{"role": "user", "content": "x"}])
    os.remove(os.path.join(FOLDER.name, "chat_template.jinja"))
    with raises(koine.NotFoundError, "no chat template"):
        koine.Vocabulary(FOLDER.name).chat([])


end_without("jinja2", "jinja2")

import jinja2  # noqa: E402
import jinja2.ext  # noqa: E402
import jinja2.sandbox  # noqa: E402


class Refused(Exception):
    """raise_exception of a template."""


def raise_exception(message):
    raise Refused(message)


ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
ENVIRONMENT.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
ENVIRONMENT.globals["raise_exception"] = raise_exception
ROLES = {"bos_token": "<s>", "eos_token": "</s>"}


def same(template, words=None, **variables):
    given = {"messages": [], "add_generation_prompt": True, **variables}
    words = words or vocabulary(template)
    try:
        wanted = ENVIRONMENT.from_string(template).render(**{**ROLES, **given})
    except Refused as error:
        with raises(koine.KoineError, str(error)):
            words.chat(**given)
        return
    try:
        found = words.chat(**given)
    except koine.KoineError as error:
        found = error
    expect(found == wanted, f"{template!r} with {given}: found {found!r}, expected {wanted!r}")


EXPRESSIONS = """
1 + 2 * 3 - 4 % 3 | -7 % 3 | 7 // -2 | 7 / 2 | 'a' + "b" | 'a' ~ 1 ~ none ~ true | not a | not a == 1 | a and b or c | 1 if a else 2 | 1 if missing
'x' in 'xyz' | 'q' not in 'xyz' | 1 in [1, 2] | 'k' in {'k': 1} | 1 == 1.0 | true == 1 | 'a' == none | [1, 2] == [1, 2] | 'a' < 'b' | 2 >= 2
missing is defined | a is not defined | none is none | 'a' is string | d is mapping | l is iterable | true is true | false is false | 1 is number
t.strip() | t.lstrip() | t.rstrip('\\n ') | 'a,b,,c'.split(',') | tojson | 'abc'.startswith('ab') | 'abc'.endswith('x') | t.split('x')[-1] | t | trim
l[0] | l[-1] | l[1:] | tojson | l[::-1] | tojson | l[:-1] | tojson | l[1:2] | tojson | l[5] | t[2:5] | t[-3:] | t[::-2] | d.k | d['k'] | d.none_of_these
l | length | d | length | t | length | l | join(', ') | l | first | l | last | missing | default('x') | '' | default('y', true) | d | tojson
d | tojson(indent=2) | l | tojson(indent=4) | [] | tojson(indent=2) | {} | tojson(indent=2) | 'é"\\n\\\\' | tojson | 1.5 | 1.0 | -1 | [1, 2.5, none, true] | tojson
d.items() | list | tojson | d | items | list | tojson | d.keys() | list | tojson | d.get('q', 7) | d.get('k') | m | selectattr('role', 'equalto', 'user') | list | length
m | rejectattr('role', 'equalto', 'user') | list | length | m | map(attribute='content') | join('+') | l | select('string') | list | tojson | l | reject('string') | list | tojson
'aXb'.replace('X', '--') | 'abc' | replace('b', '') | 'AbC' | lower | 'AbC'.upper() | (1 if a else 2) + 3 | a is defined and b is not none | d.k is string | [1] + [2] | tojson
'a' if a is defined and a else 'b' if b else 'c' | l | string if missing else 'z' | '%s' | "it's" | 'a\\tb' | range(3) | list | tojson | -l | length
"""


@case
def expressions():
    variables = {"a": 1, "b": 0, "c": "", "t": "  some tëxt ✓ x end \n", "l": [1, "two", None, 4.5], "d": {"k": "v", "n": {"x": [1, 2]}},
                 "m": [{"role": "user", "content": "1"}, {"role": "tool", "content": "2"}, {"content": "3"}]}
    # " | " also separates filters: every run of parts that jinja2 can evaluate is an expression.
    done = 0
    for line in EXPRESSIONS.strip().splitlines():
        parts = line.split(" | ")
        for begin in range(len(parts)):
            for end in range(begin + 1, min(begin + 5, len(parts) + 1)):
                template = "{{ " + " | ".join(parts[begin:end]) + " }}"
                try:
                    wanted = ENVIRONMENT.from_string(template).render(**variables)
                except Exception:
                    continue
                if wanted.startswith(("<generator", "dict_", "range(")) or wanted.startswith(("[", "{")) and "tojson" not in template:
                    continue  # a list, which only Python prints so
                try:
                    same(template, **variables)
                except Complaint as complaint:
                    if "not in the subset" not in str(complaint):  # jinja2 looks up a filter only if it is reached
                        raise
                done += 1
    expect(done > 140, f"only {done} expressions")


@case
def blanks_and_blocks():
    for template in (
            "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a {%- if true -%}  b  {%- endif -%} c", "{# note #}\nx\n  {#- note -#}  y", "{{ 'a' -}}  b {{- 'c' }}",
            "  {% if true %}x{% else %}y{% endif %}  \n\n", "{%+ if true %}x{% endif +%}\ny", "x\n\n", "\r\nx\r\n{% if true %}\r\ny{% endif %}\r\n",
            "{% for x in [1,2,3] %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "{% for x in [] %}a{% else %}none{% endfor %}",
            "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}",
            "{% for x in range(9) if x % 2 %}{{ loop.index }}{{ loop.index0 }}{{ x }}{{ loop.first }}{{ loop.length }} {% endfor %}",
            "{% for x in range(9) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break %}{% endif %}{{ x }}{% endfor %}",
            "{% set x = 1 %}{% for y in [1,2] %}{% set x = x + y %}{{ x }}{% endfor %}{{ x }}", "{% set n = namespace(a=1, b='') %}{% for y in [1,2] %}{% set n.a = n.a + y %}{% endfor %}{{ n.a }}",
            "{% if false %}a{% elif 0 %}b{% elif 1 %}c{% else %}d{% endif %}", "{% if true %}{% set z = 5 %}{% endif %}{{ z }}", "{{ {'a': [1, {'b': 'c'}]} | tojson }}",
            "{{ '{{' }}{{ \"%}\" }}", "{% for x in missing %}a{% endfor %}b", "{% for a in [[1, 2], [3, 4]] %}{% for b in a %}{{ loop.index }}{{ b }}{% endfor %}{{ loop.index }}{% endfor %}",
            "{%- for m in messages -%}\n  {{- m.role }}\n{%- endfor %}\n", "{{ loop is defined }}", "a{{ none }}b{{ missing }}c"):
        same(template, messages=[{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])


CHATML = """{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message['content'] | trim + '<|im_end|>' + '\\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}"""
QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or (not loop.last and reasoning_content)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' }}{{- content }}{{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""
LLAMA3 = """{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: ipython\\n" }}{%- endif %}
{{- "Today Date: " + (date_string if date_string is defined else "26 Jul 2024") + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("This model only supports single tool-calls at once!") }}{%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}{%- else %}{{- message.content }}{%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"""
GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""
PHI = """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""
MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}{{- raise_exception("roles must alternate") }}{%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS][" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}{{- "[INST]" + system_message + "\\n\\n" + message["content"] + "[/INST]" }}{%- else %}{{- "[INST]" + message["content"] + "[/INST]" }}{%- endif %}
    {%- elif message["role"] == "assistant" and message.content is string %}
        {{- message["content"] + eos_token}}
    {%- endif %}
{%- endfor %}"""


def conversation(chance):
    texts = ("Hi", "  two  words \n", "", "Why is the sky blue?\nTell me.", "<think>\nhm\n</think>\n\nBecause.", 'quotes " and \\', "ünïcödé ✓ 漢字", "<|im_end|>")
    messages = [{"role": "system", "content": chance.choice(texts)}] if chance.random() < 0.5 else []
    for turn in range(chance.randrange(1, 6)):
        message = {"role": ("user", "assistant")[turn % 2], "content": chance.choice(texts)}
        if turn % 2 and chance.random() < 0.3:
            message["tool_calls"] = [{"function": {"name": f"f{i}", "arguments": {"x": i, "y": ["é", None, True, 1.5]}}} for i in range(chance.randrange(1, 3))]
        messages.append(message)
        if "tool_calls" in message:
            messages += [{"role": "tool", "content": "4"}] * chance.randrange(1, 3)
    if chance.random() < 0.1:
        messages.insert(chance.randrange(len(messages)), {"role": "user", "content": "again"})
    more = {}
    if chance.random() < 0.3:
        more["tools"] = [{"type": "function", "function": {"name": "f", "description": "d é", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": []}}}]
    if chance.random() < 0.3:
        more["enable_thinking"] = chance.random() < 0.5
    return {"messages": messages, "add_generation_prompt": chance.random() < 0.5, **more}


@case
def conversations_at_random():
    chance = random.Random(1)
    for template in (CHATML, QWEN, LLAMA3, GEMMA, PHI, MISTRAL):
        words = vocabulary(template)
        for _ in range(100):
            given = conversation(chance)
            same(template, words, **given)


@case
def smollm2():
    path = os.path.join(os.environ.get("KOINE_TEST_DATA", ""), "smollm2.gguf")
    if not os.path.exists(path):
        raise Skipped("KOINE_TEST_DATA has no smollm2.gguf")
    words = koine.Vocabulary(path)
    expect_equal(words.chat([{"role": "user", "content": "Hi"}]),
                 "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    with raises(koine.NotFoundError, "no chat template"):
        koine.Vocabulary(os.path.join(os.environ["KOINE_TEST_DATA"], "gemma3.gguf")).chat([])


run()
