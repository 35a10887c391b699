"""Chat templates of our own, in the manners of the families that are in use.

Real templates belong to their models; these use the same constructs of Jinja in words of our own.
"""

TEMPLATES = {
    # Plain turns; whitespace by trim_blocks and lstrip_blocks alone.
    "plain": """\
{% for message in messages %}
    {% if message['role'] == 'system' %}
{{ message['content'] }}

    {% elif message['role'] == 'user' %}
[Q] {{ message['content'] }}
    {% else %}
[A] {{ message['content'] }}{{ eos_token }}
    {% endif %}
{% endfor %}
{% if add_generation_prompt %}
[A]
{%- endif %}
""",
    # bos in front, headers, dates, tools in the system turn or with the first user turn.
    "headers": """\
{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|head|>system<|/head|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: functions\\n" }}
{%- endif %}
{{- "Today is " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "The functions:\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- eos_token }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content'] | trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("There is no first user message to put the functions into") }}
    {%- endif %}
    {{- '<|head|>user<|/head|>\\n\\nThe functions:\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + eos_token }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' + message['content'] | trim + eos_token }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("One function at a time, not " ~ message.tool_calls | length) }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|head|>assistant<|/head|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" + eos_token }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|head|>ipython<|/head|>\\n\\n" }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- eos_token }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\\n\\n' }}
{%- endif %}
""",
    # Strict alternation with a namespace, selectattr, arguments spelt key by key.
    "strict": """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, turns alternate user/assistant/user/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[I] " + system_message + "\\n\\n" + message["content"] + "[/I]" }}
        {%- else %}
            {{- "[I] " + message["content"] + "[/I]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Ids of calls are of length 9") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {{- ", " if not loop.last else "]" + eos_token }}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token }}
    {%- elif message["role"] == "tool" %}
        {%- set content = message.content.content if message.content is mapping else message.content %}
        {{- '[RESULTS] {"content": ' + content|string + ', "call_id": "' + message.tool_call_id|default("none") + '"}[/RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, not " + message["role"] + "!") }}
    {%- endif %}
{%- endfor %}
""",
    # The system text goes into the first user turn; contents are texts or lists of parts.
    "parts": """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '</turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<turn>model\\n'}}
{%- endif -%}
""",
    # Thoughts are cut out of earlier turns; many flags in one namespace.
    "thoughts": """\
{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{ '<User>' + message['content'] }}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is none %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{{ '<Assistant><calls><call>' + tool['type'] + '<sep>' + tool['function']['name'] + '\\n```json\\n' + tool['function']['arguments'] | tojson + '\\n```</call>' }}{%- set ns.is_first = true -%}{%- else %}{{ '\\n<call>' + tool['type'] + '<sep>' + tool['function']['name'] + '\\n```json\\n' + tool['function']['arguments'] | tojson + '\\n```</call>' }}{{ '</calls>' + eos_token }}{%- endif %}{%- endfor %}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}{%- if ns.is_tool %}{{ '</outputs>' + message['content'] + eos_token }}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{ '<Assistant>' + content + eos_token }}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{ '<outputs><output>' + message['content'] + '</output>' }}{%- set ns.is_output_first = false %}{%- else %}{{ '\\n<output>' + message['content'] + '</output>' }}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{ '</outputs>' }}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{ '<Assistant>' + ('<think>\\n' if thinking | default(false) else '') }}{% endif %}""",
    # Macros that call themselves: JSON schemas as types of a programming language.
    "types": """\
{%- macro type_of(spec) -%}
    {%- set basic = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} -%}
    {%- if spec.enum -%}
        {{- "Literal[" + spec.enum | map("tojson") | join(", ") + "]" -}}
    {%- elif spec.type is not string and spec.type is iterable -%}
        {{- spec.type | join(" | ") -}}
    {%- elif basic[spec.type] is defined -%}
        {{- basic[spec.type] -}}
    {%- elif spec.type == "array" -%}
        {{- "list[" + type_of(spec['items']) + "]" -}}
    {%- elif spec.type == "object" -%}
        {%- if spec.properties is defined -%}
            {{- "{" -}}
            {%- for name, inner in spec.properties.items() -%}
                {{- name + ("" if name in spec.required|default([]) else "?") + ": " + type_of(inner) -}}
                {%- if not loop.last %}, {% endif -%}
            {%- endfor -%}
            {{- "}" -}}
        {%- else -%}
            {{- "dict" -}}
        {%- endif -%}
    {%- else -%}
        {{- "Any" -}}
    {%- endif -%}
{%- endmacro -%}
{%- macro turn(role, content="", end=true) -%}
    {{ "<" ~ role | upper ~ ">" ~ content }}{% if end %}{{ "</" ~ role | upper ~ ">\\n" }}{% endif %}
{%- endmacro -%}
{%- if tools %}
{{- turn("system", "Functions:\\n", end=false) }}
    {%- for tool in tools %}
        {%- set f = tool.function if tool.function else tool %}
        {{- "- " + f.name + "(" }}
        {%- for name, spec in f.parameters.properties | dictsort %}
            {{- name }}: {{ type_of(spec) }}
            {%- if spec.default is defined %} = {{ spec.default | tojson }}{% endif %}
            {%- if not loop.last %}, {% endif %}
        {%- endfor %}
        {{- ")" }}
        {%- if f.return is defined and f.return is not none %} -> {{ type_of(f.return) }}{% endif %}
        {{- ": " + (f.description | default("", true)).split("\\n") | first }}
{% endfor %}
{{- "</SYSTEM>\\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if message.content is string and message.content %}
        {{- turn(message.role, message.content) }}
    {%- endif %}
    {%- for call in message.tool_calls or [] %}
        {%- set f = call.function %}
        {{- turn("call", f.name ~ "(" ~ f.arguments.items() | map("join", "=") | join(", ") ~ ")") }}
    {%- endfor %}
{%- endfor %}
{%- if add_generation_prompt %}{{ turn("assistant", end=false) }}{% endif %}
""",
    # Passages to cite, a block set to a name, filters over blocks, a call block.
    "documents": """\
{%- if documents %}{% set preamble -%}
Answer from the {{ "passage" if documents | length == 1 else "passages" }} only.
{%- endset %}{% endif %}
{%- macro section(title) %}## {{ title }}
{{ caller() }}
{% endmacro %}
{% if documents %}
{{ preamble }}
{% call section("Passages") %}
    {%- for document in documents %}
{{ loop.index }}. {{ document.title | default("untitled") | title }}: {{ document.text | trim | replace("\\n", " ") }}
{% endfor %}
{%- endcall %}
{% endif %}
{% filter upper %}
{{ messages[0].role }}
{%- endfilter %}
{% for message in messages %}

{{ loop.index0 }}/{{ loop.length }} {{ message.role.title() }}: {{ message.content | indent(2) }}
{%- else %}
nothing
{%- endfor %}
{%- if add_generation_prompt %}

Answer:{% endif %}""",
    # What the assistant wrote is marked for training, and the loop looks at its neighbours.
    "marked": """\
{% for message in messages %}
{%- if loop.previtem is defined and loop.previtem.role == message.role -%}
{{ "\\n" + message.content }}
{%- elif message.role == "assistant" %}
{{ "<a>" }}{% generation %}{{ message.content | trim }}{{ "</a>" }}{% endgeneration %}
{%- else -%}
{{ "<" + message.role[0] + ">" + message.content }}
{%- endif %}
{%- if loop.nextitem is not defined or loop.nextitem.role != message.role %}{{ eos_token }}{% endif %}
{% endfor %}
{%- if add_generation_prompt %}{{ "<a>" }}{% endif %}
""",
    # Loop controls, recursion, a filter in the loop, reversed slices.
    "loops": """\
{%- for message in messages if message.role != "system" %}
    {%- if message.content is not string %}{{ "?" }}{% continue %}{% endif %}
    {%- if loop.index > 6 %}{{ "..." }}{% break %}{% endif %}
    {{- loop.cycle("odd", "even") ~ " " ~ loop.revindex ~ " " ~ loop.revindex0 ~ " " ~ loop.changed(message.role) ~ " " }}
    {{- message.content[::-1][:12] ~ "|" ~ message.content[-3:] ~ "\\n" }}
{%- endfor %}
{%- for message in messages if message.role == "critic" %}
    {{- message.content }}
{%- else %}
    {{- "no critic" }}
{%- endfor %}
{%- for node in [{"n": 1, "c": [{"n": 2, "c": []}, {"n": 3, "c": [{"n": 4, "c": []}]}]}] recursive %}
    {{- loop.depth0 ~ ":" ~ node.n ~ (loop(node.c) if node.c else "") ~ ";" }}
{%- endfor %}
""",
}
