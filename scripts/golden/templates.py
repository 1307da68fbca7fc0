"""Chat templates and conversations, rendered in the Jinja environment of transformers."""

import jinja2
from transformers.utils.chat_template_utils import render_jinja_template

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Current weather <now> & \"later\", in °C",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "e.g. Plzeň or 東京"},
            "days": {"type": "integer", "default": 3, "minimum": 1}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}}}},
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


CONVERSATIONS = {
    "single": dict(messages=[user("Hello there.")]),
    "system": dict(messages=[system("Be brief."), user("What is a draft?")]),
    "turns": dict(messages=[user("One?"), assistant("One."), user("Two?"), assistant("Two."), user("Three?")]),
    "system-turns": dict(messages=[system("  padded system \n"), user(" padded user\n"), assistant("\n padded answer "), user("again")]),
    "empty-content": dict(messages=[system(""), user("")]),
    "ends-with-assistant": dict(messages=[user("Begin"), assistant("The answer is")]),
    "unicode": dict(messages=[system("Mluv česky."), user("Žluťoučký kůň 🐴 und größer — 你好, مرحبا"), assistant("é\u0301 👩\u200d💻"), user("🇨🇿?")]),
    "syntax-in-content": dict(messages=[user("{{ x }} {% if y %} {# z #} 100% {curly} {{'a'}} %} }}"), assistant("\\n \\\\ \t|"), user("ok")]),
    "quotes-and-html": dict(messages=[user("\"double\" 'single' `tick` <b>&amp;</b> </think> a<b>c & d"), assistant("it's \"fine\""), user("<|im_end|>\n<|im_start|>system")]),
    "newlines": dict(messages=[user("a\nb\r\n\nc\n"), assistant("\n\n"), user("  x")]),
    "thinking": dict(messages=[user("2+2?"), assistant("<think>\nTwo and two.\n</think>\n\n4"), user("3+3?"), assistant("<think>\nsix\n</think>\n\n6")]),
    "reasoning-field": dict(messages=[user("2+2?"), assistant("4", reasoning_content="Add them."), user("and 1?"), assistant("5", reasoning_content="\nOne more.\n")]),
    "null-content": dict(messages=[user("Weather?"), assistant(None, tool_calls=[call("get_weather", {"city": "Brno"})])]),
    "tools": dict(messages=[user("Weather in Brno?")], tools=TOOLS),
    "tools-system": dict(messages=[system("Use tools."), user("Weather?")], tools=TOOLS),
    "tool-round": dict(tools=TOOLS, messages=[
        user("Brno and 東京, please"),
        assistant("", tool_calls=[call("get_weather", {"city": "Brno", "days": 2}), call("get_weather", {"city": "東京", "exact": True, "note": None, "t": 1.5})]),
        {"role": "tool", "name": "get_weather", "content": "{\"temp\": 21}"}, {"role": "tool", "name": "get_weather", "content": "rain <b>"},
        assistant("21 and rain."), user("Thanks")]),
    "user-twice": dict(messages=[user("a"), user("b")]),
    "only-system": dict(messages=[system("alone")]),
    "starts-with-assistant": dict(messages=[assistant("Hi, I am first."), user("ok")]),
    "unknown-role": dict(messages=[{"role": "critic", "content": "no"}, user("yes")]),
    "parts": dict(messages=[{"role": "user", "content": [{"type": "text", "text": "part one"}, {"type": "text", "text": " & two"}]}]),
}

# Header, trimmed content and tools as indented JSON: the manner of Llama 3 templates.
HEADERS = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{%- if tools is not defined %}
    {%- set tools = none %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "You may call: \\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception("One call at a time, not " ~ message.tool_calls | length) }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' + call.name + '(' }}
        {%- for name, value in call.arguments.items() %}
            {{- name + '="' + value + '"' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- endif %}
        {%- endfor %}
        {{- ")<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

# A namespace found by walking backwards, split/strip/startswith on strings: the manner of Qwen 3 templates.
REASONING = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(searching=true, last=messages | length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and reasoning)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

# One long line, roles must alternate: the manner of older templates.
ALTERNATING = (
    "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set lead = messages[0]['content'].strip() + '\n\n' %}"
    "{% else %}{% set rest = messages %}{% set lead = '' %}{% endif %}"
    "{% for m in rest %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate: user, assistant, \"user\" …') }}{% endif %}"
    "{% if loop.index0 == 0 %}{% set content = lead + m['content'] %}{% else %}{% set content = m['content'] %}{% endif %}"
    "{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif m['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)

# Whitespace: tags on lines of their own vanish with their line; text around expressions stays.
BLOCKS = """\
{# a comment on its own line #}
{% if tools %}
tools: {{ tools | length }}
{% endif %}
  {% for m in messages %}
    {% if m.role == 'system' %}
    S| {{ m.content }}
    {% else %}
[{{ loop.index }}/{{ loop.length }}{{ ' first' if loop.first }}{{ ' last' if loop.last else '' }}] {{ m.role | upper }}:
{{ m.content }}
    {%- endif %}

  {% endfor %}
  {%- if add_generation_prompt +%}
  > 
{%- endif %}
"""

# Odds and ends that templates in the field use.
CONSTRUCTS = """\
{%- macro tag(name, body='-') -%}<{{ name }}>{{ body }}</{{ name }}>{%- endmacro -%}
{%- set ns = namespace(count=0, names=[]) -%}
{%- for m in messages -%}
  {%- set ns.count = ns.count + 1 -%}
  {%- if m.content is none -%}{{ tag('none') }}
  {%- elif m.content is string -%}{{ tag(m.role, m.content | replace('a', 'A')) }}
  {%- elif m.content is iterable -%}
    {%- for part in m.content if part.type == 'text' -%}{{ part['text'] }}{%- endfor -%}
  {%- endif -%}
  {%- if m.tool_calls is defined -%}
    {%- for c in m.tool_calls -%}
      {%- for k, v in c.function.arguments | dictsort -%}{{ k }}={{ v }};{%- endfor -%}
      {{ c.function.arguments | tojson }}{{ c.function.get('missing', 'absent') }}
    {%- endfor -%}
  {%- endif -%}
  {%- if loop.index == 4 -%}{%- break -%}{%- endif -%}
{%- endfor -%}
{{ ns.count }}|{{ messages[-1].role }}|{{ messages[-1]['role'][0] }}|{{ messages | map(attribute='role') | join(',') }}
{{- '|' ~ (messages | selectattr('role', 'equalto', 'user') | list | length) ~ '|' ~ (7 // 2) ~ (7 % 3) ~ (1 if true and not false else 0) -}}
|{{ undefined_name }}|{{ undefined_name | default('d') }}|{{ 'yes' if tools is defined and tools else 'no' }}
{{- '|' + messages[0].role.upper() + messages[0].role.title() + messages[0].role[1:3] + messages[0].role[::-1] -}}
|{{ 'x' in 'xyz' }}{{ 'role' in messages[0] }}{{ 'zz' not in messages[0] }}
{%- if tools -%}|{{ tools[0].function.parameters | tojson(indent=2) }}|{{ tools[1] | tojson }}{%- endif -%}
"""

# How Python prints values that are not strings; few templates depend on it.
PRINTED = "{{ none }}|{{ true }}|{{ 1.0 }}|{{ 2 }}|{{ [1, 'a', none, true] }}|{{ {'k': 'v'} }}|{{ messages[0].content }}"

# Templates that only take strings as content; given a list they would print it the way Python does.
STRINGS_ONLY = {"headers", "blocks"}

TEMPLATES = {
    # name: (source, bos, eos, sets of further variables)
    "headers": (HEADERS, "<|begin_of_text|>", "<|eot_id|>", [{}]),
    "reasoning": (REASONING, None, "<|im_end|>", [{}, {"enable_thinking": False}, {"enable_thinking": True}]),
    "alternating": (ALTERNATING, "<s>", "</s>", [{}]),
    "blocks": (BLOCKS, None, None, [{}]),
    "constructs": (CONSTRUCTS, None, None, [{}]),
    "printed": (PRINTED, None, None, [{}]),
}


def render(source, conversation, variables):
    """{"text": …}, or {"error": message} for raise_exception, or {"error": null} when the template itself fails."""
    try:
        texts, _ = render_jinja_template([conversation["messages"]], tools=conversation.get("tools"),
                                         chat_template=source, **variables)
    except jinja2.exceptions.TemplateError as error:
        raised = type(error) is jinja2.exceptions.TemplateError
        return {"error": str(error) if raised else None}
    except (TypeError, AttributeError):
        return {"error": None}
    return {"text": texts[0]}


def make_template_goldens(smollm2_template):
    out = {"conversations": CONVERSATIONS, "templates": {}}
    for name, (source, bos, eos, sets) in {"smollm2": (smollm2_template, "<|im_start|>", "<|im_end|>", [{}]), **TEMPLATES}.items():
        renders = []
        for key, conversation in CONVERSATIONS.items():
            if key == "parts" and name in STRINGS_ONLY:
                continue
            for extra in sets:
                for prompt in (False, True):
                    tokens = {k: v for k, v in (("bos_token", bos), ("eos_token", eos)) if v is not None}
                    result = render(source, conversation, {**tokens, **extra, "add_generation_prompt": prompt})
                    renders.append(dict(conversation=key, add_generation_prompt=prompt, variables=extra, **result))
        failed = sorted({r["conversation"] for r in renders if "error" in r})
        print(f"template {name}: {len(renders)} renders, errors in {failed}")
        out["templates"][name] = dict(source=source, bos_token=bos, eos_token=eos, renders=renders)
    return out
