"""Templates for families whose own are in no package: written for these tests around the markers that their makers
document, with the constructs that such templates use. Not for prompting the models.

Qwen 3.5: tool calls as XML inside ChatML. Gemma 4: `<|turn>role … <turn|>`, `<|channel>thought … <channel|>`,
`<|tool>declaration:…<tool|>`, `<|tool_call>call:…<tool_call|>`, strings between `<|"|>`. LFM2: ChatML after
`<|startoftext|>`, tools between `<|tool_list_start|>` and `<|tool_list_end|>`, calls written like Python's.
"""

QWEN35 = """\
{%- macro words(content, who) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for part in content %}
            {%- if 'image' in part or part.type == 'image' %}
                {{- raise_exception('A ' ~ who ~ ' turn cannot show pictures here.') }}
            {%- elif 'text' in part %}
                {{- part.text }}
            {%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}
        {{- '' }}
    {%- else %}
        {{- raise_exception('What is ' ~ content ~ '?') }}
    {%- endif %}
{%- endmacro %}
{%- if not messages %}
    {{- raise_exception('Nothing was said.') }}
{%- endif %}
{%- set lead = words(messages[0].content, 'system') | trim if messages[0].role == 'system' else '' %}
{%- if tools and tools is iterable and tools is not mapping %}
    {{- '<|im_start|>system\\n## Functions\\n\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' ~ (tool | tojson) }}
    {%- endfor %}
    {{- '\\n</tools>\\n\\nTo call one, write:\\n<tool_call>\\n<function=NAME>\\n<parameter=KEY>\\nVALUE\\n</parameter>\\n</function>\\n</tool_call>' }}
    {{- ('\\n\\n' + lead) if lead }}
    {{- '<|im_end|>\\n' }}
{%- elif lead %}
    {{- '<|im_start|>system\\n' + lead + '<|im_end|>\\n' }}
{%- endif %}
{%- set state = namespace(searching=true, asked=messages | length - 1) %}
{%- for message in messages[::-1] %}
    {%- set at = (messages | length - 1) - loop.index0 %}
    {%- if state.searching and message.role == 'user' %}
        {%- set said = words(message.content, 'user') | trim %}
        {%- if not (said.startswith('<tool_response>') and said.endswith('</tool_response>')) %}
            {%- set state.searching = false %}
            {%- set state.asked = at %}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set said = words(message.content, message.role) | trim %}
    {%- if message.role == 'system' %}
        {%- if not loop.first %}
            {{- raise_exception('The system speaks first.') }}
        {%- endif %}
    {%- elif message.role == 'user' %}
        {{- '<|im_start|>user\\n' + said + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in said %}
            {%- set thought = said.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set said = said.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if loop.index0 > state.asked %}
            {{- '<think>\\n' + thought | trim + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- said }}
        {%- if message.tool_calls and message.tool_calls is iterable and message.tool_calls is not mapping %}
            {%- for tool_call in message.tool_calls %}
                {%- if tool_call.function is defined %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '' if loop.first and not said else '\\n\\n' if loop.first else '\\n' }}
                {{- '<tool_call>\\n<function=' + tool_call.name + '>\\n' }}
                {%- for key, value in tool_call.arguments | items %}
                    {{- '<parameter=' + key + '>\\n' }}
                    {%- set value = value | tojson | safe if value is mapping or (value is sequence and value is not string) else value | string %}
                    {{- value }}
                    {{- '\\n</parameter>\\n' }}
                {%- endfor %}
                {{- '</function>\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.previtem and loop.previtem.role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + said + '\\n</tool_response>' }}
        {%- if not loop.last and loop.nextitem.role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- elif loop.last %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- else %}
        {{- raise_exception('Nobody is called ' + message.role + '.') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
"""

GEMMA4 = """\
{%- macro quoted(text) -%}
    {{- '<|"|>' + text + '<|"|>' -}}
{%- endmacro -%}
{%- macro literal(value, bare_keys=True) -%}
    {%- if value is string -%}
        {{- quoted(value) -}}
    {%- elif value is boolean -%}
        {{- 'true' if value else 'false' -}}
    {%- elif value is none -%}
        null
    {%- elif value is mapping -%}
        {{- '{' -}}
        {%- set seen = namespace(first=true) -%}
        {%- for key, entry in value | dictsort -%}
            {%- if not seen.first %},{% endif -%}
            {%- set seen.first = false -%}
            {{- key if bare_keys else quoted(key) -}}:{{- literal(entry, bare_keys=bare_keys) -}}
        {%- endfor -%}
        {{- '}' -}}
    {%- elif value is sequence -%}
        {{- '[' -}}
        {%- for entry in value -%}
            {{- literal(entry, bare_keys=bare_keys) -}}
            {%- if not loop.last %},{% endif -%}
        {%- endfor -%}
        {{- ']' -}}
    {%- else -%}
        {{- value -}}
    {%- endif -%}
{%- endmacro -%}
{%- macro fields(properties) -%}
    {%- set usual = ['description', 'type', 'properties', 'required'] -%}
    {%- for key, field in properties | dictsort -%}
        {{- key }}:{
        {%- if field['description'] -%}description:{{ quoted(field['description']) }},{%- endif -%}
        {%- for name, entry in field | dictsort if name not in usual -%}
            {{- name }}:{{ literal(entry) }},
        {%- endfor -%}
        {%- if field['type'] == 'object' and field['properties'] is defined and field['properties'] is mapping -%}
            properties:{ {{- fields(field['properties']) -}} },
        {%- endif -%}
        type:{{ quoted(field['type'] | upper) -}} }
        {%- if not loop.last %},{% endif -%}
    {%- endfor -%}
{%- endmacro -%}
{%- macro without_thoughts(text) -%}
    {%- set out = namespace(text='') -%}
    {%- for part in text.split('<channel|>') -%}
        {%- if '<|channel>' in part -%}
            {%- set out.text = out.text + part.split('<|channel>')[0] -%}
        {%- else -%}
            {%- set out.text = out.text + part -%}
        {%- endif -%}
    {%- endfor -%}
    {{- out.text | trim -}}
{%- endmacro -%}
{%- set ns = namespace(previous=None) -%}
{%- set turns = messages -%}
{{- bos_token -}}
{%- if (enable_thinking is defined and enable_thinking) or tools or messages[0]['role'] in ['system', 'developer'] -%}
    {{- '<|turn>system\\n' -}}
    {%- if enable_thinking is defined and enable_thinking -%}
        {{- '<|think|>\\n' -}}
    {%- endif -%}
    {%- if messages[0]['role'] in ['system', 'developer'] -%}
        {{- messages[0]['content'] | trim -}}
        {%- set turns = messages[1:] -%}
    {%- endif -%}
    {%- for tool in tools or [] -%}
        {{- '<|tool>declaration:' + tool['function']['name'] + '{description:' -}}
        {{- quoted(tool['function']['description']) -}}
        {%- set parameters = tool['function']['parameters'] -%}
        {%- if parameters -%}
            ,parameters:{
            {%- if parameters['properties'] -%}properties:{ {{- fields(parameters['properties']) -}} },{%- endif -%}
            {%- if parameters['required'] -%}required:{{ literal(parameters['required']) }},{%- endif -%}
            {%- if parameters['type'] -%}type:{{ quoted(parameters['type'] | upper) }}}{%- endif -%}
        {%- endif -%}
        {{- '}<tool|>' -}}
        {%- set ns.previous = 'tool' -%}
    {%- endfor -%}
    {{- '<turn|>\\n' -}}
{%- endif -%}
{%- for message in turns -%}
    {%- set ns.previous = None -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {%- if role == 'tool' -%}
        {{- '<|tool_response>response:' + message.get('name', 'unknown') + '{value:' + quoted(message['content']) + '}<tool_response|>' -}}
        {%- set ns.previous = 'response' -%}
    {%- else -%}
        {%- if not (role == 'model' and loop.previtem is defined and loop.previtem['role'] == 'tool') -%}
            {{- '<|turn>' + role + '\\n' -}}
        {%- endif -%}
        {%- for call in message['tool_calls'] or [] -%}
            {%- set function = call['function'] -%}
            {{- '<|tool_call>call:' + function['name'] + '{' -}}
            {%- if function['arguments'] is mapping -%}
                {%- for key, value in function['arguments'] | dictsort -%}
                    {{- key -}}:{{- literal(value, bare_keys=False) -}}
                    {%- if not loop.last %},{% endif -%}
                {%- endfor -%}
            {%- elif function['arguments'] is string -%}
                {{- function['arguments'] -}}
            {%- endif -%}
            {{- '}<tool_call|>' -}}
            {%- set ns.previous = 'call' -%}
        {%- endfor -%}
        {%- if message['content'] is string -%}
            {{- without_thoughts(message['content']) if role == 'model' else message['content'] | trim -}}
        {%- elif message['content'] is sequence -%}
            {%- for item in message['content'] if item['type'] == 'text' -%}
                {{- without_thoughts(item['text']) if role == 'model' else item['text'] | trim -}}
            {%- endfor -%}
        {%- endif -%}
        {%- if ns.previous != 'call' -%}
            {{- '<turn|>\\n' -}}
        {%- endif -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and ns.previous != 'response' -%}
    {{- '<|turn>model\\n' -}}
    {%- if enable_thinking is defined and not enable_thinking -%}
        {{- '<|channel>thought\\n<channel|>' -}}
    {%- endif -%}
{%- endif -%}
"""

LFM2 = """\
{{- bos_token -}}
{%- set keep = keep_past_thinking | default(false) -%}
{%- set ns = namespace(lead='', last=-1) -%}
{%- if messages[0]['role'] == 'system' -%}
    {%- set ns.lead = messages[0]['content'] -%}
    {%- set messages = messages[1:] -%}
{%- endif -%}
{%- if tools -%}
    {%- set ns.lead = ns.lead + ('\\n' if ns.lead else '') + 'Tools at hand: <|tool_list_start|>[' -%}
    {%- for tool in tools -%}
        {%- set ns.lead = ns.lead + (tool if tool is string else tool | tojson) + ('' if loop.last else ', ') -%}
    {%- endfor -%}
    {%- set ns.lead = ns.lead + ']<|tool_list_end|>' -%}
{%- endif -%}
{%- if ns.lead -%}
    {{- '<|im_start|>system\\n' + ns.lead + '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {%- if message['role'] == 'assistant' -%}
        {%- set ns.last = loop.index0 -%}
    {%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
    {{- '<|im_start|>' + message['role'] + '\\n' -}}
    {%- set content = message['content'] -%}
    {%- if content is none or content is undefined -%}
        {%- set content = '' -%}
    {%- elif content is not string -%}
        {%- set content = content | tojson -%}
    {%- endif -%}
    {%- if message['role'] == 'assistant' and not keep and loop.index0 != ns.last and '</think>' in content -%}
        {%- set content = content.split('</think>')[-1] | trim -%}
    {%- elif message['role'] == 'tool' -%}
        {%- set content = '<|tool_response_start|>' + content + '<|tool_response_end|>' -%}
    {%- endif -%}
    {{- content -}}
    {%- if message['tool_calls'] is defined -%}
        {{- '<|tool_call_start|>[' -}}
        {%- for call in message['tool_calls'] -%}
            {{- call['function']['name'] + '(' -}}
            {%- for key in call['function']['arguments'] -%}
                {{- key ~ '=' ~ (call['function']['arguments'][key] | tojson) -}}
                {{- ', ' if not loop.last -}}
            {%- endfor -%}
            {{- ')' + ('' if loop.last else ', ') -}}
        {%- endfor -%}
        {{- ']<|tool_call_end|>' -}}
    {%- endif -%}
    {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
