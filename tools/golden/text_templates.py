"""Chat templates of our own, in the manners of the families that are in use, and single expressions.

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

# Expressions on fixed variables, each a template of its own: "{{ expression }}", or the text itself when it has a tag.
VARIABLES = {
    "s": "  Hello, wOrld's end!  ",
    "t": "a-b-c-d",
    "empty": "",
    "u": "naïve 漢字 😀 <&>\"'\\\n\t\u2028",
    "i": 7,
    "neg": -7,
    "big": 9007199254740993,
    "f": 2.5,
    "whole": 3.0,
    "small": 1.5e-7,
    "huge": 1e22,
    "yes": True,
    "no": False,
    "nil": None,
    "list": [3, 1, 2],
    "names": ["b", "A", "c", "a"],
    "mixed": [1, "two", 3.0, True, None, [4], {"five": 5}],
    "pairs": [["x", 1], ["y", 2]],
    "map": {"b": 1, "a": [1, 2], "c": {"d": None}},
    "people": [{"name": "Ann", "age": 30, "x": {"y": 1}}, {"name": "bob", "age": 25}, {"name": "Cy", "age": 30}],
    "quoted": ["it's", 'say "hi"', "both ' and \"", "new\nline", "é", "\u200b"],
}

EXPRESSIONS = [
    # How values look.
    "yes", "no", "nil", "i", "neg", "big", "f", "whole", "small", "huge", "list", "mixed", "map", "quoted", "pairs",
    "[]", "{}", "()", "(1,)", "(1, 2)", "[none, true]", "{'a': 'b', 1: 2}", "missing", "missing.x is defined",
    "yes ~ nil", "'%s' % yes", "list ~ ''", "map ~ ''", "1.0", "1e3", "10 / 4", "8 / 2", "-0.0", "1e16", "0.1 + 0.2",
    "nil ~ 1", "[1.0, 2.5]", "{'k': 1.0}", "'a' 'b'", "1_000",
    # Arithmetic as Python has it.
    "7 // 2", "-7 // 2", "7 % 3", "-7 % 3", "7 % -3", "2 ** 10", "2 ** -1", "2 ** 0.5", "7.5 // 2", "-7.5 % 2",
    "1 + 1.0", "true + true", "'ab' * 3", "3 * 'ab'", "[0] * 3", "[1] + [2]", "'a' + 'b'", "'a' + 1", "i - 10", "-i",
    "+i", "i / 0", "i % 0", "2 * 3.0", "big + 1", "big * 2", "10 ** 20", "9223372036854775807 + 1", "1 - 0.9",
    "3 > 2 > 1", "1 < 2 == true", "1 == 1.0", "'a' < 'b'", "[1, 2] < [1, 3]", "'a' == 1", "none == false",
    "1 in [1.0]", "'1' in [1]", "'ell' in s", "'b' in map", "5 not in list", "nil is none", "not nil", "not empty",
    "i or 3", "empty or 'x'", "nil and 1", "yes and 'x'", "'x' if empty else 'y'", "'x' if empty", "i if yes else j",
    # Access.
    "list[0]", "list[-1]", "list[5]", "list[1:]", "list[:-1]", "list[::2]", "list[::-1]", "list[5:]", "t[0]", "t[-1]",
    "t[2:5]", "t[::-1]", "t[-3:]", "t[100:]", "t[100]", "u[6:8]", "u[::2]", "map.a", "map['a']", "map.c.d", "map.zzz",
    "map['zzz']", "map.zzz.y", "map.items()", "map.keys()", "map.values()", "map.keys() | list", "map.get('b')",
    "map.get('zzz')", "map.get('zzz', 5)", "map | length", "people[0].name", "people[1]['x']", "people[1].x.y",
    "(list | length) - 1", "pairs[1][0]", "map['c']['d']", "map | list", "map | first", "list | last", "[] | first",
    "list[1.0]", "t['x']", "mixed[-1].five", "namespace(a=1).a", "namespace({'a': 1}).a", "dict(a=1, b=2)",
    "dict([['a', 1]])", "range(5) | list", "range(2, 10, 3) | list", "range(5, 0, -2) | list", "range(3)[1]",
    "range(0) | list", "range(3) | length", "lipsum is defined", "cycler is defined", "joiner is defined",
    # Methods of texts.
    "s.strip()", "s.lstrip()", "s.rstrip()", "s.strip(' !')", "'xxaxx'.strip('x')", "'xyaxy'.lstrip('yx')",
    "s.upper()", "s.lower()", "s.title()", "\"they're bill's\".title()", "s.capitalize()", "s.strip().capitalize()",
    "s.swapcase()", "t.split('-')", "t.split('-', 1)", "t.split('-', 1)[1]", "t.rsplit('-', 1)", "t.split('-')[-1]",
    "s.split()", "' a  b '.split(' ')", "'a\\nb\\r\\nc'.splitlines()", "t.replace('-', '+')", "t.replace('-', '+', 2)",
    "'aaa'.replace('', '-')", "t.startswith('a-')", "t.startswith(('x', 'a'))", "t.endswith('d')", "t.endswith('')",
    "t.find('c')", "t.find('zz')", "t.rfind('-')", "t.index('c')", "t.count('-')", "'-'.join(['a', 'b'])",
    "'-'.join([])", "','.join(names)", "'-'.join([1])", "'{} and {}'.format(1, 'x')", "'{a}'.format(a=1)",
    "'{0}{0}'.format('z')", "'%s is %d' % ('x', 3)", "'%.2f' % 3.14159", "'%5s|' % 'a'", "'%-5s|' % 'a'", "'%05d' % 42",
    "'%s' % 'a'", "'%x' % 255", "'%%'", "'abc'.isdigit()", "'123'.isdigit()", "'abc'.isalpha()", "'a1'.isalnum()",
    "' '.isspace()", "'ABC'.isupper()", "'abc'.islower()", "'7'.zfill(3)", "'a'.center(5)", "'a'.ljust(3) ~ '|'",
    "'a'.rjust(3)", "'a=b'.partition('=')", "'a=b=c'.rpartition('=')", "'prefix'.removeprefix('pre')",
    "'a.txt'.removesuffix('.txt')", "'tab\\tx'.expandtabs(4)", "'é'.encode('utf-8')", "'ß'.upper()", "'ǆ'.title()",
    "'İ'.lower()", "'ΑΣ'.lower()", "u.strip()", "'a\\u00a0'.strip()", "'\\u200ba'.strip()", "'\\x1fa'.strip()",
    "'hello world-foo bar'.title()", "'1st 2ND'.title()", "'x'.casefold()", "'abc'.__class__",
    "'abcbd'.split(sep='b')", "' a b c'.split(maxsplit=1)", "'abcbd'.split('b', maxsplit=1)", "'abcbd'.rsplit(maxsplit=1, sep='b')",
    "'a\\nb'.splitlines(keepends=true)", "'a\\tb'.expandtabs(tabsize=2)", "'abc'.split('b', sep='b')", "'abc'.split(by='b')",
    "'abc'.find('b', 2)", "'éaéa'.find('a', 2)", "'éaéa'.rfind('a', 0, -1)", "'abc'.find('', 3)", "'abc'.find('', 4)",
    "'abc'.find('b', -2)", "'abc'.find('b', none, 1)", "'abcb'.index('b', 2)", "'abcb'.index('b', 2, 3)", "'abcb'.rindex('b', 0, 3)",
    "'abab'.count('a', 1)", "'abab'.count('a', 3, 1)", "'abc'.startswith('b', 1)", "'abc'.startswith(('x', 'b'), 1, 2)",
    "'abc'.startswith('', 4)", "'abc'.endswith('b', 0, 2)", "'abc'.find('b', 0, 1, 2)", "map.get('zzz', default=1)",
    # Methods of lists and maps; templates may not change them.
    "list.count(1)", "list.index(2)", "list.append(4)", "map.update({'z': 1})", "map.pop('b')", "list.copy()",
    "map.copy()", "list.sort()", "names.reverse()",
    # Filters.
    "s | trim", "'xxaxx' | trim('x')", "s | upper", "s | lower", "s | title", "\"they're bill's hello-world\" | title",
    "s | trim | capitalize", "'HELLO wORLD' | capitalize", "s | length", "u | length", "list | length", "s | count",
    "missing | default('d')", "empty | default('d')", "empty | default('d', true)", "nil | default('d')", "nil | d(1)",
    "nil | default('d', boolean=true)", "list | join", "list | join('-')", "people | join(', ', attribute='name')",
    "mixed | join('|')", "t | replace('-', '+')", "t | replace('-', '+', 1)", "list | sort", "list | sort(reverse=true)",
    "names | sort", "names | sort(case_sensitive=true)", "people | sort(attribute='age') | map(attribute='name') | list",
    "people | map(attribute='age') | list", "people | map(attribute='x.y', default=0) | list",
    "people | map(attribute='x') | list", "names | map('upper') | list",
    "list | map('string') | join(',')", "list | select('odd') | list", "list | reject('odd') | list",
    "list | select('gt', 1) | list", "list | select('>', 1) | list", "mixed | select('string') | list",
    "mixed | select | list", "people | selectattr('age', 'equalto', 30) | list | length",
    "people | selectattr('x') | list | length", "people | selectattr('x', 'defined') | map(attribute='name') | list",
    "people | selectattr('age', '==', 30) | map(attribute='name') | join",
    "people | rejectattr('age', 'equalto', 30) | map(attribute='name') | join",
    "people | selectattr('name', 'in', ['Ann', 'Cy']) | list | length", "people | groupby('age') | list | length",
    "{% for age, group in people | groupby('age') %}{{ age }}:{{ group | length }};{% endfor %}",
    "list | unique | list", "['a', 'A', 'b'] | unique | list", "[1, 1, 2] | unique | list", "list | sum", "list | min",
    "list | max", "people | sum(attribute='age')", "names | min", "names | max", "list | first", "t | first", "t | last",
    "list | reverse | list", "t | reverse", "map | dictsort", "map | dictsort(true)", "map | dictsort(reverse=true)",
    "map | items | list", "{'b': 2, 'A': 1, 'a': 3} | dictsort", "{'b': 2, 'a': 3} | dictsort(false, 'value')",
    "[1, 2, 3, 4, 5] | batch(2) | list", "[1, 2, 3] | batch(2, 0) | list", "[1, 2, 3, 4, 5] | slice(2) | list",
    "'3' | int", "'3.7' | int", "'x' | int", "'x' | int(5)", "3.9 | int", "-3.9 | int", "'2.5' | float", "'x' | float",
    "'ff' | int(0, 16)", "yes | int", "2.5 | round", "3.5 | round", "-2.5 | round", "3.14159 | round(2)",
    "2.1 | round(0, 'ceil')", "2.9 | round(0, 'floor')", "7 | round", "42.55 | round(1)", "-3 | abs", "2.5 | abs",
    "3 | string", "3.0 | string", "nil | string", "yes | string", "list | string", "'abc' | list", "map | list | sort",
    "'a b c' | wordcount", "'a\\nb' | indent", "'a\\nb' | indent(2)", "'a\\nb\\n\\nc' | indent(2, true)",
    "'a\\n\\nb' | indent(2, blank=true)", "'a\\nb' | indent(width=3, first=true)", "'a\\nb' | indent('> ')",
    "'a\\nb\\n' | indent(2) ~ '|'", "'hello big world' | truncate(9)", "'hello big world' | truncate(9, true)",
    "'hello big world' | truncate(9, true, '')", "'hello' | truncate(5)", "'a' | center(5) ~ '|'",
    "'one two three four' | wordwrap(8)", "'%s-%s' | format(1, 'x')", "'%(a)s' | format(a=1)", "'<b>&\"\\'' | e",
    "'<b>' | escape", "'<b>' | safe", "'<b>x</b> y' | striptags", "'a b&c/d' | urlencode", "{'a': 'b c'} | urlencode",
    "people | map(attribute='name') | map('lower') | sort | join(' ')", "map | attr('b')",
    "messages[0] | attr('role') is defined", "namespace(a=1) | attr('a')", "list | attr(0)", "s | attr('nope')",
    "{% for a in list %}{{ loop | attr('index') }}{% endfor %}",
    "1024 | filesizeformat", "list | random is number", "list | pprint", "'a' | xmlattr", "names | list | length",
    "[[1, 2], [3]] | sum(start=[])", "names | join(',') | upper", "(names | join(',')) ~ 1 | string",
    "-1 | abs", "(-1) | abs", "'a' ~ 1 + 2 ~ 'b'", "2 + 3 | string | length", "not yes | string", "['a'] | first | upper",
    # JSON.
    "u | tojson", "map | tojson", "mixed | tojson", "quoted | tojson", "list | tojson(indent=2)", "map | tojson(indent=2)",
    "map | tojson(2)", "{} | tojson", "[] | tojson(indent=2)", "{} | tojson(indent=2)", "u | tojson(ensure_ascii=true)",
    "map | tojson(sort_keys=true)", "map | tojson(separators=(',', ':'))", "map | tojson(indent=1, separators=(',', ': '))",
    "people | tojson(indent=4)", "big | tojson", "[small, huge, whole, f, -0.0] | tojson", "{1: 2, true: 3} | tojson",
    "nil | tojson", "yes | tojson", "'</script>' | tojson", "missing | tojson", "(1, 2) | tojson", "range(3) | tojson",
    "'\\x7f\\x00\\x1f' | tojson", "map.items() | list | tojson", "map.keys() | list | tojson", "map | tojson | length",
    "map | tojson(indent='--')", "map | tojson(indent=0)", "[1e400] | tojson",
    # Tests.
    "i is number", "f is float", "i is integer", "f is integer", "yes is integer", "yes is number", "yes is boolean",
    "yes is true", "no is false", "1 is true", "nil is none", "s is string", "list is string", "list is sequence",
    "s is sequence", "map is mapping", "map is sequence", "map is iterable", "s is iterable", "i is iterable",
    "list is iterable", "missing is defined", "missing is undefined", "i is odd", "i is even", "i is divisibleby 7",
    "i is divisibleby(2)", "i is sameas i", "none is sameas none", "i is eq 7", "i is equalto 7", "i is == 7",
    "i is gt 5", "i is in [7]", "i is not in [7]", "'a' is in 'abc'", "s is lower", "'ABC' is upper", "s.upper is callable",
    "range is callable", "'tojson' is filter", "'nope' is filter", "'defined' is test", "missing is not defined",
    "map.zzz is defined", "map.b is defined", "map.items is defined", "people[1].x is defined", "nil is defined",
    "undefined is defined", "list[9] is defined", "map.zzz is none", "s is mapping", "people | first is mapping",
    "list.append is defined", "raise_exception is defined", "strftime_now is defined", "tools is none",
    "documents is defined", "add_generation_prompt", "bos_token", "pad_token is defined", "eos_token | length",
    # Statements and scope.
    "{% set x = 1 %}{% for a in list %}{% set x = a %}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for a in list %}{% set ns.x = ns.x + a %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(found=false, items=[]) %}{% for a in list %}{% set ns.items = ns.items + [a * 2] %}{% endfor %}{{ ns.items }}",
    "{% for a in list %}{{ a }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in map %}{{ k }}{% endfor %}",
    "{% for c in 'añ😀' %}{{ c }}.{% endfor %}", "{% for a, b in pairs %}{{ a }}{{ b }}{% endfor %}",
    "{% for a in [] %}x{% else %}none{% endfor %}", "{% for a in missing %}x{% endfor %}", "{% for a in nil %}x{% endfor %}",
    "{% for a in list if a > 1 %}{{ loop.index }}{{ a }}{% endfor %}", "{% for a in 5 %}x{% endfor %}",
    "{% for a in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{% endfor %}",
    "{% for a in list %}{% for b in list %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for a in list %}{% set outer = loop %}{% for b in [1] %}{{ outer.index }}{% endfor %}{% endfor %}",
    "{% set x %}  block {{ i }}{% endset %}[{{ x }}]", "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set x = 1 if yes else 2 %}{{ x }}", "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}",
    "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m() }}", "{% macro m() %}{{ varargs }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m() }}",
    "{% macro m(kwargs=2) %}{% set varargs = 1 %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m() }}",
    "{% set kwargs = 1 %}{% macro m() %}{% endmacro %}{{ kwargs }}{{ varargs is defined }}",
    "{% macro m(x) %}{{ x }}{% if x > 0 %}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}x{% endcall %}",
    "{% macro m() %}<{{ caller(1) }}>{% endmacro %}{% call(a) m() %}{{ a }}{% endcall %}",
    "{% macro m() %}  x  {% endmacro %}{{ m() | trim }}|{{ m() | length }}", "{% filter upper %}a{{ t }}{% endfilter %}",
    "{% with a = 1 %}{{ a }}{% endwith %}{{ a is defined }}", "{% raw %}{{ x }}{% endraw %}", "a{# comment #}b",
    "a  {#- c -#}  b", "{%- if true -%}  x  {%- endif -%}", "  {%+ if true %}x{% endif %}", "x\n  {% if true %}\ny\n  {% endif %}\nz",
    "x\n  {{ i }}\nz\n", "x\n\n{% if true %}\n\ny{% endif %}\n\n", "{{ i }}\n", "{% if true %}\n", "{{ 'a\\nb' }}", "{{ 'a\\tb\\\\n\\'' }}",
    "{{ \"\\u00e9\\x41\" }}", "{% if i == 7 and not (f > 3 or no) %}ok{% endif %}", "{% if list %}a{% elif i %}b{% else %}c{% endif %}",
    "{% for a in list %}{% if a == 1 %}{% continue %}{% endif %}{{ a }}{% endfor %}",
    "{% for a in list %}{% if a == 1 %}{% break %}{% endif %}{{ a }}{% endfor %}",
    "{% do list.append(1) %}", "{% for a in list %}{% continue %}{% else %}x{% endfor %}", "{% generation %}{{ i }}{% endgeneration %}", "{%- generation -%} x {%- endgeneration %}y",
    "{% set loop_messages = messages[1:] %}{{ loop_messages | length }}", "{% set map2 = dict(map, z=1) %}{{ map2.z }}",
    "{{ raise_exception('no ' ~ i) }}", "{{ strftime_now('%Y-%m-%d %H:%M:%S %j %A %B %-d %p %%') }}",
    "{{ strftime_now('%U %W %G %g %V %u %c|%C|%k|%l|%P|%r|%x %X|%R %T|%D %F|%h %e|%w|100%') }}",
    "{{ strftime_now('%-d %_d %0e %-e %_j %-j %^a %^B %^p %^P %^c %-y %_U %-k %0l %-C') }}",
    "{{ strftime_now('%d %b %Y') }}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{{ self.x() }}",
    "{{ i", "{% if %}", "{% for %}", "{{ }}", "{% endif %}", "{{ 'open }}", "{{ a b }}", "{{ 1 + }}", "{% unknown %}",
    "{{ nope(1) }}", "{{ s | nope }}", "{{ s is nope }}", "{{ s.nope() }}", "{{ nil.x }}", "{{ i.x }}", "{{ i() }}", "{{ missing.x }}",
    "{{ missing.x.y }}", "{{ nil[0] }}", "{{ nil + 'a' }}", "{{ 'a' + nil }}", "{{ nil | length }}", "{{ i | length }}", "{{ nil | trim }}",
    "{{ missing | trim }}~", "{{ missing | upper }}~", "{{ missing | length }}", "{{ missing + 'a' }}", "{{ missing ~ 'a' }}",
    "{{ missing == none }}", "{{ missing | list }}", "{{ missing | join }}~", "{{ missing | first }}~", "{{ not missing }}", "{{ missing is none }}",
    "{{ 5 | upper }}", "{{ 5 | trim }}", "{{ list | upper }}", "{{ nil | upper }}", "{{ yes | lower }}", "{{ nil | replace('o', '0') }}",
    "{{ 5 | replace('5', '6') }}", "{{ nil | join(',') }}", "{{ s | replace('l') }}", "{{ s | join('-') }}", "{{ 'abc' | map('upper') | list }}",
    "{% set messages = [{'role': 'x'}] + messages %}{{ messages | length }}", "{% set x = namespace(a=1) %}{{ x }}",
    "{% set x = [1, 2] %}{% set y = x + [3] %}{{ y[-1] }}{{ x | length }}", "{{ [1, 2, 3][1:][0] }}", "{{ ('a', 'b')[1] }}",
    "{{ {'a': {'b': 'c'}}.a.b }}", "{{ 'a' if 'x' in map else 'b' if i else 'c' }}", "{{ messages[0].role }}", "{{ messages[-1]['content'] }}",
    "{{ messages | map(attribute='role') | join(',') }}", "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | first }}",
    "{{ messages[::-1] | map(attribute='role') | join(',') }}", "{{ messages | length }}", "{{ (messages | last).role }}",
    "{{ messages[0] }}", "{{ messages[0] | tojson }}", "{% if messages[0] == {'role': 'user', 'content': 'Hi'} %}same{% endif %}",
    "{{ messages[0].content.split(' ') | length }}", "{{ messages[5] is defined }}", "{{ messages[5].role }}",
    # Nothing where a list may be, and floats inside of other values.
    "nil is iterable",
    "missing is iterable",
    "yes is iterable",
    "'' is iterable",
    "{% if tools is iterable and tools | length > 0 %}x{% else %}none{% endif %}",
    "missing is sequence",
    "nil is sequence",
    "i is sequence",
    "missing | items | list",
    "nil | items | list",
    "{% for key, value in missing | items %}x{% else %}none{% endfor %}",
    "missing | last",
    "nil | last",
    "[] | last",
    "'' | last",
    "{{ {'a': 2.5e-7} }}",
    "[1e16]",
    "[small, huge, whole, -0.0]",
    "(small, [huge])",
    "(huge,)",
    "{{ {'a': [small, {'b': (huge,)}]} | string }}",
    "'%s' % {'a': small}",
    "'%s' % [huge]",
    "'%s|%s' % ([small], huge)",
    "'%(a)s' % {'a': [small]}",
    "'%5s|%-30s|' | format(i, [small])",
    "'%d' % [1]",
    "[small] ~ ''",
    "'' ~ {'a': huge}",
    "[[small], {'b': huge}] | join(', ')",
    "{{ {2.5e-7: small} }}",
    "{{ {} }}{{ [[], {}, ()] }}",
    "[missing]",
    "people | groupby('age')",
    "'%s' % map",
    "'%s' % ((1, 2),)",
    # What is more than a list, and names that end where they were set.
    "range(3)", "range(1, 7, 2)", "range(0)", "range(3) ~ ''", "[range(2)]", "{{ '%s' % range(2) }}", "range(5)[-1]",
    "range(5)[5]", "range(5)[1:3] | list", "range(-9223372036854775807, 9223372036854775807, 4611686018427387904) | list",
    "range(5, 0, -2)", "2 in range(3)", "range(3) | last", "range(3) == range(0, 3)",
    "{% set r = range(2) %}{% for i in r %}{{ i }}{% endfor %}{{ r | length }}{{ r is sequence }}{{ r is mapping }}",
    "self", "self is defined", "self.x is defined", "(1, 2) + (3,)", "(1, 2) * 2", "2 * (1,)", "[1] + [2] == [1, 2]",
    "{% generation %}{% set z = 1 %}{% endgeneration %}{{ z is defined }}",
    "{% set z = 0 %}{% generation %}{% set z = 1 %}{{ z }}{% endgeneration %}{{ z }}",
    "{% set ns = namespace(z=0) %}{% generation %}{% set ns.z = 1 %}{% endgeneration %}{{ ns.z }}",
    "{% for a in list %}{% generation %}{{ loop.index }}{{ a }}{% endgeneration %}{% endfor %}",
    "{% generation %}a{% generation %}b{% endgeneration %}{% endgeneration %}",
    "{% for m in messages %}{{ loop.previtem.role }}|{{ loop.nextitem.role }};{% endfor %}",
    "{% set ns = namespace() %}{{ ns.x is defined }}{% set ns.x = 1 %}{{ ns.x }}",
    "{% if x is not defined %}{% set x = 1 %}{% endif %}{{ x }}",
    "{% for m in messages %}{% if loop.first %}{% set y = 1 %}{% endif %}{% endfor %}{{ y is defined }}",
    "{% set f = 1 %}{% macro g() %}{{ f }}{% endmacro %}{% set f = 2 %}{{ g() }}",
    "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}",
    "{% set d = {'a': 1} %}{% set d.a = 2 %}", "{% set _ = messages.append(1) %}",
    "{{ messages | rejectattr('role', 'in', ['user']) | list | tojson }}",
    "{{ messages | map(attribute='nope', default='d') | list }}", "{{ messages | selectattr('role') | first }}",
    "{{ dict(messages[0], x=1) | tojson }}", "{{ messages | tojson(indent=2) }}",
    "{{ {'a': 1.0, 'b': 1e100, 'c': none, 'd': '<>&\\u2028'} | tojson }}",
    "{% for k, v in messages[0] | items %}{{ k }}{{ v }}{% endfor %}",
    "{{ messages | groupby('role') | map('first') | list }}", "{{ messages[-1:] | first | attr('role') }}",
    "{{ strftime_now() }}", "{{ raise_exception() }}", "{{ '{:,}'.format(1234567) }}", "{{ '{a[0]}'.format(a=[1]) }}",
    "{{ messages | length - 1 }}", "{{ 'x' if no }}|{{ ('x' if no) is defined }}",
    # Kinds of characters, and numbers that are written in a text.
    "'नमस्ते'.isalpha()", "'é漢'.isalpha()", "'Ⅷ'.isalpha()", "'Ⅷ'.isalnum()", "'½'.isdigit()", "'½'.isnumeric()",
    "'²'.isdigit()", "'²'.isdecimal()", "'三'.isnumeric()", "'aǅ'.islower()", "'Ⓐ'.isupper()", "'a'.isalpha(1)",
    "'नमस्ते दुनिया' | wordcount", "'½ a_b' | wordcount", "' 5 ' | int", "'+5' | int", "'-5' | int", "'1_000' | int",
    "'_1' | int(3)", "'1__0' | int(3)", "'1_' | int(3)", "'12 3' | int(3)", "' 2.5\\n' | float", "'1_0.5' | float",
    "'1e_5' | float(3.0)",
    # The characters of a text in a loop.
    "{% for c in 'abc' %}{{ c }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.nextitem }};{% endfor %}",
    "{% for c in 'hé' | reverse %}{{ c }}{{ loop.last }};{% endfor %}{% for c in '' %}x{% else %}none{% endfor %}",
    # Sizes of formats, parts of ranges, methods and keys of a map, generators, and ends of lines.
    "'%*d|' % (5, 42)", "'%*s|' % (-4, 'é')", "'%-*d|' % (5, 42)", "'%.*f' % (2, 3.14159)", "'%*.*f|' % (8, 2, 3.14159)",
    "'%*d' % ('a', 1)", "'%*d' % (5,)", "('%1500s' % 'x') | length", "('%1500d' % 7) | length", "('%.1200f' % 0.5) | length",
    "('%01200d' % -7) | length", "'{:1500}'.format('x') | length", "'{:>1500}'.format(7) | length", "'{:{}}|'.format('a', 5)",
    "'{:{w}}|'.format('a', w=5)", "'{0:>{1}}|'.format('a', 5)", "'{:.{}f}'.format(3.14159, 2)",
    "'{:>{w}.{p}f}|'.format(3.14159, w=8, p=2)", "range(10)[2:5]", "range(10)[2:5] | list", "range(10)[::-1]", "range(10)[::2]",
    "range(10)[-3:]", "range(2, 20, 3)[1:4]", "range(0)[1:]", "range(5)[4:1]", "range(5)[4:1:-2]", "range(5)[:0]",
    "range(10)[2:5][1]", "range(10)[2:5] | length", "range(5, 0, -1)[1:3]", "{% for x in range(10)[7:] %}{{ x }}{% endfor %}",
    "{% set d = {'items': 1, 'keys': 2, 'get': 3} %}{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}",
    "{% set d = {'items': 1} %}{% if d.items %}y{% else %}n{% endif %}",
    "{% set d = {} %}{% if d.items %}y{% else %}n{% endif %}",
    "{% set d = {'items': {'type': 'x'}} %}{{ d.items.type is defined }}",
    "{% set d = {'items': {'type': 'x'}} %}{{ d['items'].type }}", "{% set d = {'update': 1} %}{{ d.update }}",
    "{% set d = {'pop': 1} %}{{ d['pop'] }}", "{% set d = {'items': none} %}{{ d.items is none }}",
    "{% set d = {'a': 1} %}{{ d.items is defined }}{{ d.clear is defined }}{{ d.b is defined }}",
    "{% set f = map.get %}{{ f('b') }}{{ f('zzz', 5) }}",
    "{% set ns = namespace(items=[]) %}{{ ns.items }}{% set ns.items = [1] %}{{ ns.items }}",
    "{% set ns = namespace(x=1) %}{% macro m() %}{% set ns.x = 2 %}{% endmacro %}{{ m() }}{{ ns.x }}",
    "{% if (list | select('gt', 9)) %}a{% else %}b{% endif %}", "{% if (people | selectattr('zzz')) %}a{% endif %}",
    "{% if (list | select('gt', 9) | list) %}a{% else %}b{% endif %}", "{% if list | map('string') %}a{% endif %}",
    "(list | select('gt', 9)) | first", "{% for a in list | select('gt', 9) %}{{ a }}{% else %}none{% endfor %}",
    "{% for a in list | select('gt', 1) %}{{ a }}{{ loop.last }}{{ loop.length }}{% endfor %}", "list | select('gt', 1) == []",
    "{{ strftime_now(format='%Y') }}", "{{ strftime_now(5) }}", "'aaa' | replace('a', 'b', count=1)",
    "'aaa' | replace(old='a', new='b')", "'aaa' | replace('a')", "'aaa' | replace('a', none)", "list | sort(true)",
    "names | sort(true, true)", "list | sort(true, true, 'a', 1)", "people | max(attribute='age')",
    "people | min(attribute='age')", "names | max(true)", "map | last", "map | reverse | list", "'nan' | float",
    "'-inf' | float", "'infinity' | int", "'infinity' | int(5)", "'1e3' | int", "a{{ 1 }}\r\nb\r\n",
    "x\r\n{% if true %}\r\ny\r\n{% endif %}\r\nz", "{{ 'a\r\nb' | length }}", "{{ 'a\rb' | tojson }}",
    "{% if [] | reverse %}a{% endif %}", "{% if {} | items %}a{% endif %}", "{% for a in list | reverse %}{{ a }}{% endfor %}",
    "{% for k, v in map | items %}{{ k }}{{ v }}{{ loop.last }}{% endfor %}",
    "{% set ns = namespace(s='') %}{% macro m() %}{% set ns.s %}x{% endset %}{% endmacro %}{{ m() }}{{ ns.s }}",
    # Escapes in texts.
    "{{ '\\a\\b\\f\\v' | tojson }}", "{{ '\\U0001F600\\U0001f601' }}", "{{ '\\x41\\u0041\\U00000041\\101' }}",
    "{{ '\\N{BULLET}' }}", "{{ '\\N{NO SUCH NAME}' }}", "{{ '\\U0001' }}", "{{ '\\U00110000' }}", "{{ '\\x4' }}",
    "{{ '\\u12' }}", "{{ '\\q\\d+\\%\\8' }}", "{{ '\\/' }}", "{{ '\\é' }}", "{{ '\\\\\\a' | tojson }}", "{{ '\\08\\18\\1234' | tojson }}",
    "{{ '\\v' ~ \"\\a\" 'x\\v' }}", "{% set x = 'a\\\nb' %}{{ x }}", "{{ {'\\a': 1}['\\x07'] }}", "{{ 'a\\vb'.split() }}",
    "{{ 'a\\x07' | replace('\\a', 'b') }}", "{{ '\\a' in '\\x07' }}", "{% raw %}{{ '\\a' }}{% endraw %}{# '\\a' #}x",
    "{{ \"it's \\\\a\" }}", "{{ namespace(a='\\a').a | tojson }}", "{% if '\\a' == '\\x07' %}y{% endif %}",
    # Defaults of macros that name other parameters.
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, b=3) }}",
    "{% macro m(a, b=a+1, c=b*2) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, c=5) }}{{ m(1, b=0) }}",
    "{% macro m(a=b, b=2) %}{{ a }}|{{ b }}{% endmacro %}{{ m() }}{{ m(b=5) }}",
    "{% set a = 7 %}{% macro m(a, b=a) %}{{ b is undefined }}{% endmacro %}{{ m() }}",
    "{% set x = 5 %}{% macro m(a=x) %}{{ a }}{% endmacro %}{% set x = 6 %}{{ m() }}",
    "{% macro m(a, b=n(a)) %}{{ b }}{% endmacro %}{% macro n(x) %}<{{ x }}>{% endmacro %}{{ m('abc') }}",
    "{% macro m(n, d=n) %}{% if n > 0 %}{{ d }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
    "{% macro m(a, b=a) %}{{ caller(b) }}{% endmacro %}{% call(x, y=x) m(3) %}<{{ x }}{{ y }}>{% endcall %}",
    "{% macro m(a=1) %}{% set a = a + 1 %}{{ a }}{% endmacro %}{{ m() }}{{ m(5) }}",
    "{% macro m(a=missing.x) %}y{% endmacro %}{{ m(1) }}", "{% macro m(a=missing.x) %}y{% endmacro %}{{ m() }}",
    # What is added to a text that counts as HTML.
    "('<' | escape) + '<'", "'<' + ('<' | escape)", "('<' | escape) ~ '<'", "('<' | safe) + '&'", "('a' | safe) + 1",
    "('<' | safe) * 2 + '<'", "('<a' | safe | upper) + '<'", "('<a ' | safe | trim) + '<'", "('<a' | safe)[:1] + '<'",
    "('<a' | safe).upper() + '<'", "(' <a' | safe).strip() + '<'", "('x' | safe | center(3)) + '<'", "('x' | safe | title) + '<'",
    "('x' | safe | indent(2)) + '<'", "(['<' | safe, '&'] | join('-')) + '<'", "('<' | safe) == '<'", "('<' | safe) | tojson",
    "{% macro m() %}<{% endmacro %}{{ m() + '<' }}{{ m() | safe + '<' }}", "('%s' | safe) % '<'", "['<' | safe]",
    # Separators and turns.
    "{% set j = joiner() %}{{ j() }}a{{ j() }}b{{ j() }}c", "{% set j = joiner(1) %}{{ j() }}{{ j() }}", "{{ joiner(1, 2) }}",
    "{% set j = joiner('|') %}{% for m in messages %}{{ j() }}{{ m.role }}{% endfor %}",
    "{% set j = joiner(sep='-') %}{{ j() }}{{ j() }}{{ j.sep }}{{ j.used }}", "{% set j = joiner() %}{{ j(1) }}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c['current'] }}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.reset() }}{{ c.current }}{{ c.pos }}{{ c.items }}",
    "{% set c = cycler('a', 'b') %}{% macro m() %}{{ c.next() }}{% endmacro %}{{ m() }}{{ m() }}{{ m() }}",
    "{{ cycler() }}", "{% set c = cycler('a') %}{{ c() }}", "{{ cycler('a') is defined }}", "{{ cycler(*list).current }}",
    "{% set c = cycler(['x'], {'y': 1}) %}{% for i in range(3) %}{{ c.next() }}{% endfor %}",
]
EXPRESSION_MESSAGES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello there"}]
