"""Oracle of tst_io_chat_template: transformers' apply_chat_template.
make_chat_cases.py OUT.json [GGUF]   templates in the style of the families Linnet reads, and one for each construct, on several
conversations; with a GGUF its own template too."""
import json
import sys

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

CHATML = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You help.<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

TOOLS = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are a model.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are a model.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- tool_call.arguments | tojson }}
        {%- endfor %}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' ~ message.content ~ '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

THINKING = """{%- set ns = namespace(multi_step=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query and (loop.last or (not loop.last and reasoning)) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

HEADERS = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%Y") %}
    {%- else %}
        {%- set date_string = "2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- the system message comes out of the list -#}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Year: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
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

STRICT = """{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role, please') }}{% endif %}
{% for m in messages %}
  {% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
  [{{ m.role }}] {{ m.content|trim }}
{% endfor %}
"""

SNIPPETS = [  # white space control
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a {%- if true -%} b {%- endif -%} c", "x\n   {{ 1 }}\n   {# c #}\n  y\n\n", "{% if true %}\n\n a{% endif %}\n",
    "  {%+ if true %}\n b{% endif +%}\n c", "\r\n{% if true %}\r\nA\r\n{% endif %}\r\n", "{{ 'a' -}}  \n  {{- 'b' }}", "{#- x -#} y {#- z #}\n w", "t  {% if true %}x{% endif %}  {% if true %}y{% endif %}\n",
    "{{ '}}' }}{{ \"%}\" }}{{ {'a': {'b': 1}}['a']['b'] }}", "\u3000{%- if true %}\u2003x{% endif %}", "{%\nif\ntrue\n%}y{%endif%}", "a\n{% set x = 1 %}\n\n{% set y = 2 %}\nb",
    # values as text
    "{{ none }} {{ true }} {{ 1.0 }} {{ 1e20 }} {{ 0.1 + 0.2 }} {{ [1, 'a', \"it's\", none] }} {{ {'k': [1.5, true]} }} {{ (1,) }} {{ (1, 2) }} {{ 1e-7 }} {{ 123456.0 }}",
    "{{ ['a\\n\"', 'b\\'\"', 'ü\\t\\\\'] }}", "{{ missing }}|{{ messages[99] }}|{{ messages[0].nothing }}", "{{ 'a' 'b' }}", "{{ '\\x41\\u00e9\\U0001F600\\q' }}",
    # operators
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 * 3 + 4 }} {{ 2 + 3 * 4 }} {{ -(2) }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 'ab' * 3 }} {{ +5 }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ true == 1 }} {{ none == none }} {{ [1] == [1] }} {{ 'a' in 'cat' }} {{ 3 not in [1, 2] }} {{ 'role' in messages[0] }}",
    "{{ not true or true }} {{ not (true or true) }} {{ 0 or 'x' }} {{ 'y' and '' }} {{ none or missing or 3 }}", "{{ 1 ~ 2 ~ none ~ 'x' }} {{ 1 + 2 ~ 3 }} {{ 'a' + 'b' ~ 1 * 2 }}", "{{ [1] + [2, 3] }}",
    "{{ 'x' if false }}|{{ 'x' if true }}|{{ 1 if false else 2 if false else 3 }}", "{{ -1 | abs }} {{ -1 is odd }} {{ 2 * 3 | string ~ 'z' }}", "{{ missing is defined and missing.x }}",
    # slices and indices
    "{{ 'héllo'[1] }} {{ 'héllo'[::-1] }} {{ 'héllo'[1:3] }} {{ 'héllo'[-3:] }} {{ 'héllo'[:-1] }} {{ 'hello'[4:1:-1] }} {{ 'hello'[10:] }} {{ 'hello'[::2] }} {{ [1, 2, 3][-1] }} {{ [1, 2, 3][::-1] }} {{ [1,2,3][5:0:-2] }}",
    # filters
    "{{ '  x ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ 'abc' | upper }} {{ 'ÀB' | lower }} {{ 'hELLO wORLD' | capitalize }} {{ 'a-b c' | replace('-', '+') }} {{ 'aaa' | replace('a', 'b', 2) }}",
    "{{ [1, 2] | length }} {{ 'é😀' | length }} {{ missing | length }} {{ [1, 'b', none] | join(', ') }} {{ 'abc' | join('-') }} {{ [] | join }} {{ [3, 4] | first }} {{ [3, 4] | last }} {{ 'xyz' | list }}",
    "{{ missing | default('d') }} {{ '' | default('d') }}| {{ '' | default('d', true) }} {{ none | default('d') }} {{ missing | d }} {{ none | default('e', boolean=true) }}",
    "{{ {'b': [1, 2.5, true, none, 'é\\n\"<>&\\x01'], 'a': {}} | tojson }} {{ {'b': 1, 'a': [1, {}], 'c': []} | tojson(indent=2) }} {{ 'x' | tojson }} {{ [] | tojson(indent=4) }}",
    "{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", "{{ '42' | int + 1 }} {{ '4.7' | int }} {{ 'x' | int }} {{ 'x' | int(9) }} {{ '1.5' | float }} {{ 3.9 | int }} {{ 5 | string + 'x' }} {{ [1, 2, 3] | reverse | list }} {{ 'abc' | reverse }}",
    "{{ messages | map(attribute='role') | join(',') }} {{ ['a', 'b'] | map('upper') | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'in', ['user']) | map(attribute='content') | join('/') }}",
    "{{ [1, 2, 3, 4] | select('even') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ [1, 2, 3] | reject('gt', 1) | list }} {% for k, v in {'a': 1, 'b': 2} | items %}{{ k }}={{ v }};{% endfor %}",
    # tests
    "{% for x in [1, 1.5, 'a', [1], {'a': 1}, none, true, (1, 2)] %}{{ x is string }}{{ x is number }}{{ x is integer }}{{ x is float }}{{ x is mapping }}{{ x is iterable }}{{ x is sequence }}{{ x is none }}{{ x is boolean }}{{ x is true }} {% endfor %}",
    "{{ 3 is odd }} {{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ 1 is eq 1 }} {{ 'a' is in ['a'] }} {{ 2 is gt(1) }} {{ x is not defined }} {{ x is undefined }} {{ 'a' is not string }} {{ none is sameas none }} {{ 1 is ne 2 }} {{ false is false }}",
    # methods
    "{{ ' a b  c '.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a b  c '.split(none, 1) }} {{ 'a-b-c'.rsplit('-', 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ ' x y '.split(none, 2) }}",
    "{{ 'xxabxx'.strip('x') }} {{ '\\n\\n a \\n'.strip('\\n') }}| {{ ' a '.lstrip() }}| {{ ' a '.rstrip() }}| {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'aXbX'.replace('X', '') }} {{ 'ab'.upper() }} {{ 'hello wORLD it'.title() }} {{ 'éa'.capitalize() }} {{ 'abcb'.find('b') }} {{ 'éab'.find('b') }} {{ 'abcb'.rfind('b') }} {{ 'x'.find('y') }} {{ 'banana'.count('an') }} {{ ', '.join(['a', 'b']) }} {{ '12'.isdigit() }}",
    "{{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 7) }} {% for k, v in {'x': 1, 'y': 2}.items() %}{{ k }}{{ v }}{{ loop.last }} {% endfor %}{{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }} {{ messages[0].get('role') }}",
    # loops, scopes, namespaces
    "{% for i in range(3) %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }} {% endfor %}",
    "{% set x = 0 %}{% for i in range(3) %}{{ x }}{% set x = x + 1 %}{{ x }} {% endfor %}{{ x }}", "{% set ns = namespace(n=0, f=false) %}{% for i in range(5) if i is odd %}{% set ns.n = ns.n + i %}{{ loop.index }}{% endfor %}{{ ns.n }}{{ ns.f }}",
    "{% for x in [] %}a{% else %}none{% endfor %} {% for x in missing %}a{% else %}b{% endfor %}", "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}{% set p, q = 5, 6 %}{{ p * q }}", "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% set t %}in {{ 1 + 1 }} block{% endset %}[{{ t }}]", "{% if false %}a{% elif none %}b{% elif 1 %}c{% else %}d{% endif %}", "{% for c in 'añb' %}{{ c }}.{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}", "{{ range(2, 10, 3) | list }} {{ range(3, 0, -1) | list }}",
    "{% for i in range(2) %}{% for j in range(2) %}{{ loop.index }}{{ i }}{{ j }}{% endfor %}{{ loop.index }} {% endfor %}", "{% if x is not defined %}{% set x = 'new' %}{% endif %}{{ x }}",
    # macros and transformers' own
    "{% macro hi(name, mark='!') %}Hi {{ name }}{{ mark }}{% endmacro %}{{ hi('a') }} {{ hi('b', mark='?') }} {{ hi(name='c') }} {{ hi() }}", "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}",
    "{% set g = 'G' %}{% macro m() %}{{ g }}{{ messages | length }}{% endmacro %}{% for i in [1] %}{{ m() }}{% endfor %}", "{% generation %}said{% endgeneration %}\n{{ dict(a=1, b='x') }}", "{{ eos_token }}{{ bos_token }}{{ pad_token is defined }}{{ tools is none }}{{ documents }}",
    "{{ messages[0]['content'].strip() ~ '|' ~ messages[-1].role }}", "{{ messages | tojson }}", "{{ messages[1:] | length }} {{ messages[::-1][0].role }}",
    # what fails
    "{{ missing.x }}", "{{ 1 + 'a' }}", "{{ 'a' < 1 }}", "{{ 1 / 0 }}", "{{ raise_exception('stop') }}", "{{ 'a' in 3 }}", "{% for x in 5 %}{% endfor %}", "{{ range(1000000) }}", "{% if %}{% endif %}", "{% for x in [1] %}", "{{ 1 +", "{{ 'abc }}", "{% endif %}", "{{ [1, 2 }}", "{# never closed",
]

CONVERSATIONS = [
    [{"role": "user", "content": "Hi there"}],
    [{"role": "system", "content": "  Be brief.\n"}, {"role": "user", "content": "Why?  "}],
    [{"role": "user", "content": "2+2?\n"}, {"role": "assistant", "content": "<think>\nadd\n</think>\n\n4"}, {"role": "user", "content": "ünï 😀 <b>&\"'\\"}],
    [{"role": "system", "content": ""}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "tool", "content": "{\"t\": 1}"}, {"role": "tool", "content": "two"},
     {"role": "assistant", "content": "<think>x</think>c"}],
]


def main(out, gguf_file=None):
    templates = [CHATML, TOOLS, THINKING, HEADERS, STRICT] + SNIPPETS
    if gguf_file:
        import gguf
        templates.append(gguf.GGUFReader(gguf_file).fields["tokenizer.chat_template"].contents())
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>")
    cases = []
    for template in templates:
        for messages in CONVERSATIONS:
            for prompt in (False, True):
                case = {"template": template, "messages": messages, "prompt": prompt}
                try:
                    case["text"] = tokenizer.apply_chat_template(messages, chat_template=template, add_generation_prompt=prompt, tokenize=False)
                except Exception as error:  # whatever the reason: ours must fail too
                    case["error"] = f"{type(error).__name__}: {error}"
                cases.append(case)
    json.dump(cases, open(out, "w"))


main(*sys.argv[1:])
