"""Chat templates of our own that use the constructs of well-known models' templates, each in its own way, and small
snippets of the template language. Nothing is copied; the formats are only shaped like the models'."""

TEMPLATES = {
    "chatml": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"),
    "chatml_default_system": """\
{%- if messages[0].role != 'system' %}
{{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
{%- endif %}
{%- for m in messages %}
{{- '<|im_start|>' ~ m.role ~ '\\n' ~ (m.content or '') ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
""",
    "llama2": """\
{% if messages[0]['role'] == 'system' %}
    {% set loop_messages = messages[1:] %}
    {% set system_message = messages[0]['content'] %}
{% else %}
    {% set loop_messages = messages %}
    {% set system_message = false %}
{% endif %}
{% for message in loop_messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Roles must alternate user/assistant/user/assistant') }}
    {% endif %}
    {% if loop.index0 == 0 and system_message != false %}
        {% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}
    {% else %}
        {% set content = message['content'] %}
    {% endif %}
    {% if message['role'] == 'user' %}
        {{- bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
    {% elif message['role'] == 'assistant' %}
        {{- ' ' + content.strip() + ' ' + eos_token }}
    {% endif %}
{% endfor %}
""",
    "llama3": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|header|>' + message['role'] + "
        "'<|end_header|>\n\n' + message['content'] | trim + '<|eot|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + "
        "content %}{% endif %}{{ content }}{% endfor %}{{ '<|header|>assistant<|end_header|>\n\n' if add_generation_prompt else '' }}"),
    "llama3_tools": """\
{{- bos_token }}
{%- if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}
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
{%- if not tools is defined %}{% set tools = none %}{% endif %}
{#- The system message comes out of the list, so that it can be written first #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|h|>system<|/h|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "Functions: " }}
{%- endif %}
{{- system_message }}
{{- "<|eot|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("No first user message to put the tools in") }}
    {%- endif %}
    {{- '<|h|>user<|/h|>\\n\\n' -}}
    {{- 'Answer with JSON of a function call.\\n\\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|h|>' + message['role'] + '<|/h|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("Only one tool call at once") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|h|>assistant<|/h|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|h|>ipython<|/h|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|h|>assistant<|/h|>\\n\\n' }}
{%- endif %}
""",
    "qwen25": """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are a helper.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n{\\"name\\": <function-name>}<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are a helper.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "qwen3": """\
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role != "assistant" %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- else %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "gemma": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception("
        "'Roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
        "{% set role = message['role'] %}{% endif %}{{ '<turn>' + role + '\n' + message['content'] | trim + '<end>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{'<turn>model\n'}}{% endif %}"),
    "gemma3": """\
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
        {{ raise_exception("Conversation roles must alternate") }}
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
    {{ '<end>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<turn>model\\n'}}
{%- endif -%}
""",
    "mistral_v1": (
        "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
        "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
        "{{ message['content'] + eos_token + ' ' }}{% else %}{{ raise_exception('Only user and assistant roles!') }}{% endif %}{% endfor %}"),
    "mistral_v3": """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{#- Tool calls and their results may stand between the turns #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
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
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token }}
    {%- elif message["role"] == "tool" or message["role"] == "tool_results" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id|default('none') + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user, assistant and tool roles are supported") }}
    {%- endif %}
{%- endfor %}
""",
    "mistral_tekken": """\
{%- set today = strftime_now("%Y-%m-%d") %}
{%- set default_system_message = "You are a model. Today is " + today + ".\\nBe short." %}
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}
        {%- set system_message = messages[0]['content'] %}
    {%- else %}
        {%- set system_message = messages[0]['content'][0]['text'] %}
    {%- endif %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set system_message = default_system_message %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- '[SYSTEM_PROMPT]' + system_message + '[/SYSTEM_PROMPT]' }}
{%- for message in loop_messages %}
    {%- if message['role'] == 'user' %}
        {%- if message['content'] is string %}
            {{- '[INST]' + message['content'] + '[/INST]' }}
        {%- else %}
            {{- '[INST]' }}
            {%- for block in message['content'] %}
                {%- if block['type'] == 'text' %}
                    {{- block['text'] }}
                {%- elif block['type'] in ['image', 'image_url'] %}
                    {{- '[IMG]' }}
                {%- else %}
                    {{- raise_exception('Only text and image blocks are supported!') }}
                {%- endif %}
            {%- endfor %}
            {{- '[/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'system' %}
        {{- '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}
    {%- elif message['role'] == 'assistant' %}
        {{- message['content'] + eos_token }}
    {%- else %}
        {{- raise_exception('Only user, system and assistant roles!') }}
    {%- endif %}
{%- endfor %}
""",
    "phi3": (
        "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\n' + "
        "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
        "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"),
    "phi4": (
        "{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|s|>system<|sep|>' + message['content'] + '<|e|>'}}"
        "{% elif (message['role'] == 'user') %}{{'<|s|>user<|sep|>' + message['content'] + '<|e|>'}}{% elif (message['role'] == "
        "'assistant') %}{{'<|s|>assistant<|sep|>'}}{% generation %}{{message['content'] + '<|e|>'}}{% endgeneration %}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|s|>assistant<|sep|>' }}{% endif %}"),
    "zephyr": """\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
""",
    "deepseek": """\
{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif -%}
{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') -%}
{%- for message in messages -%}
  {%- if message['role'] == 'system' -%}{% set ns.system_prompt = message['content'] %}{%- endif -%}
{%- endfor -%}
{{bos_token}}{{ns.system_prompt}}
{%- for message in messages -%}
  {%- if message['role'] == 'user' -%}
    {%- set ns.is_tool = false -%}{{'<|User|>' + message['content']}}
  {%- endif -%}
  {%- if message['role'] == 'assistant' and message['content'] is none -%}
    {%- set ns.is_tool = false -%}
    {%- for tool in message['tool_calls'] -%}
      {%- if not ns.is_first -%}
        {{'<|Assistant|><|calls|><|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\\n```json\\n' + tool['function']['arguments']|tojson + '\\n```<|/call|>'}}
        {%- set ns.is_first = true -%}
      {%- else -%}
        {{'\\n<|call|>' + tool['type'] + '<|sep|>' + tool['function']['name']}}{{'<|/calls|>'}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {%- if message['role'] == 'assistant' and message['content'] is not none -%}
    {%- if ns.is_tool -%}
      {{'<|/outputs|>' + message['content'] + eos_token}}{%- set ns.is_tool = false -%}
    {%- else -%}
      {%- set content = message['content'] -%}
      {%- if '</think>' in content -%}{%- set content = content.split('</think>')[-1] -%}{%- endif -%}
      {{'<|Assistant|>' + content + eos_token}}
    {%- endif -%}
  {%- endif -%}
  {%- if message['role'] == 'tool' -%}
    {%- set ns.is_tool = true -%}
    {%- if ns.is_output_first -%}
      {{'<|outputs|><|output|>' ~ message['content'] ~ '<|/output|>'}}{%- set ns.is_output_first = false -%}
    {%- else -%}
      {{'\\n<|output|>' ~ message['content'] ~ '<|/output|>'}}
    {%- endif -%}
  {%- endif -%}
{%- endfor -%}
{% if ns.is_tool %}{{'<|/outputs|>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<|Assistant|>'}}{% endif %}
""",
    "command_r": """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif false == true %}{% set loop_messages = messages %}{% set system_message = 'You are Command.' %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}
{%- if system_message != false %}{{ '<|START|><|SYSTEM|>' + system_message + '<|END|>' }}{% endif %}
{%- for message in loop_messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate, not ' ~ (loop_messages | map(attribute='role') | join('/'))) }}{% endif %}
{%- set content = message['content'] %}
{%- if message['role'] == 'user' %}{{ '<|START|><|USER|>' + content.strip() + '<|END|>' }}
{%- elif message['role'] == 'assistant' %}{{ '<|START|><|BOT|>'  + content.strip() + '<|END|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|START|><|BOT|>' }}{% endif %}
""",
    "command_r_tools": """\
{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if basic_type_map[json_spec.type] is defined %}
{{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
{{- "List[" + json_to_python_type(json_spec['items']) + "]"}}
{%- elif json_spec.type == "object" %}
{{- "Dict[str, " + json_to_python_type(json_spec.additionalProperties) + ']'}}
{%- elif json_spec.type is iterable %}
{{- "Union[" }}
{%- for t in json_spec.type %}
{{- json_to_python_type({"type": t}) }}
{%- if not loop.last %}{{- "," }}{% endif %}
{%- endfor %}
{{- "]" }}
{%- else %}
{{- "Any" }}
{%- endif %}
{%- endmacro %}
{%- macro old_tool_parser(tools) %}
{%- for tool in tools %}
{%- if loop.index0 != 0 %}{{- '\\n\\n' }}{% endif %}
{{- '```python\\ndef ' + tool.function.name + '(' }}
{%- for param_name, param_fields in tool.function.parameters.properties|items %}
{%- if loop.index0 != 0 %}{{- ', '}}{% endif %}
{{- param_name + ": " }}
{%- if not param_name in tool.function.parameters.required %}
{{- 'Optional[' + json_to_python_type(param_fields) + '] = None'}}
{%- else %}
{{- json_to_python_type(param_fields) }}
{%- endif %}
{%- endfor %}
{{- ') -> List[Dict]:\\n    \"\"\"'}}
{{- tool.function.description }}
{{- '\"\"\"\\n    pass\\n```' }}
{%- endfor %}
{%- endmacro %}
{{- bos_token }}
{%- if tools %}{{ old_tool_parser(tools) }}{% endif %}
{%- for message in messages %}
{{- '\\n<' ~ message.role|upper ~ '> ' ~ (message.content if message.content is not none else '') }}
{%- for call in message.tool_calls %}{{ ' ' ~ loop.index ~ ':' ~ call.function.name ~ '(' ~ call.function.arguments.items() | map('join', '=') | join(', ') ~ ')' }}{% endfor %}
{%- endfor %}
""",
    "smollm3": """\
{%- set enable_thinking = enable_thinking if enable_thinking is defined else true -%}
{%- set reasoning_mode = '/think' if enable_thinking else '/no_think' -%}
{{- '<|im_start|>system\\n' -}}
{%- if messages[0].role == 'system' -%}
  {%- set system_message = messages[0].content -%}
  {%- if '/no_think' in system_message -%}
    {%- set reasoning_mode = '/no_think' -%}
  {%- elif '/think' in system_message -%}
    {%- set reasoning_mode = '/think' -%}
  {%- endif -%}
  {%- set custom_instructions = system_message.replace('/no_think', '').replace('/think', '').rstrip() -%}
{%- endif -%}
{{- '## Metadata\\n\\n' -}}
{%- set today = strftime_now('%d %B %Y') -%}
{{- 'Today Date: ' ~ today ~ '\\n' -}}
{{- 'Reasoning Mode: ' + reasoning_mode + '\\n\\n' -}}
{%- if custom_instructions -%}{{- custom_instructions + '\\n\\n' -}}
{%- elif reasoning_mode == '/think' -%}{{- 'Think first.\\n\\n' -}}
{%- endif -%}
{%- if xml_tools or python_tools or tools -%}
  {{- '### Tools\\n\\n' -}}
  {%- set ns = namespace(xml_tool_string='You may call:\\n<tools>\\n') -%}
  {%- for tool in (xml_tools or tools)[:] -%}
    {%- set ns.xml_tool_string = ns.xml_tool_string ~ (tool | string) ~ '\\n' -%}
  {%- endfor -%}
  {{- ns.xml_tool_string + '</tools>\\n\\n' -}}
{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else '' -%}
  {%- if message.role == 'user' -%}
    {{ '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
  {%- elif message.role == 'assistant' -%}
    {% generation %}
    {%- if reasoning_mode == '/think' -%}
      {{ '<|im_start|>assistant\\n' + content.lstrip('\\n') + '<|im_end|>\\n' }}
    {%- else -%}
      {{ '<|im_start|>assistant\\n' + '<think>\\n\\n</think>\\n' + content.lstrip('\\n') + '<|im_end|>\\n' }}
    {%- endif -%}
    {% endgeneration %}
  {%- elif message.role == 'tool' -%}
    {{ '<|im_start|>' + 'user\\n' + content + '<|im_end|>\\n' }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{ '<|im_start|>assistant\\n' if reasoning_mode == '/think' else '<|im_start|>assistant\\n<think>\\n\\n</think>\\n' }}
{%- endif -%}
""",
    "granite": """\
{%- if messages[0]['role'] == 'system' %}
     {%- set system_message = messages[0]['content'] %}
     {%- set loop_messages = messages[1:] %}
 {%- else %}
     {%- set system_message = "Knowledge Cutoff Date: April 2024.\\nToday's Date: " + strftime_now('%B %d, %Y') + ".\\nYou are Granite-like." %}
     {%- if tools and documents %}
         {%- set system_message = system_message + " Tools and documents." %}
     {%- elif tools %}
         {%- set system_message = system_message + " Tools." %}
     {%- elif documents %}
         {%- set system_message = system_message + " Documents." %}
     {%- endif %}
     {%- if 'citations' in controls and documents %}
         {%- set system_message = system_message + ' Cite.' %}
     {%- endif %}
     {%- set loop_messages = messages %}
 {%- endif %}
 {{- '<|r|>system<|/r|>' + system_message + '<|eot|>\\n' }}
 {%- if tools %}
     {{- '<|r|>tools<|/r|>' }}
     {{- tools | tojson(indent=4) }}
     {{- '<|eot|>\\n' }}
 {%- endif %}
 {%- for message in loop_messages %}
     {{- '<|r|>' + message['role'] + '<|/r|>' + (message['content'] | default('', true)) + '<|eot|>\\n' }}
     {%- if loop.last and add_generation_prompt %}
         {{- '<|r|>assistant' }}
             {%- if controls %}
                 {{- ' ' + controls | tojson()}}
             {%- endif %}
         {{- '<|/r|>' }}
     {%- endif %}
 {%- endfor %}
""",
    "olmo": (
        "{{ eos_token }}{% for message in messages %}\n{% if message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] }}"
        "\n{% elif message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] }}\n{% elif message['role'] == 'assistant' %}\n"
        "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n"
        "{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"),
    "falcon": (
        "{% for message in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}{% if message['role'] == 'system' %}"
        "{{ 'System: ' }}{% elif message['role'] == 'user' %}{{ 'User: ' }}{% elif message['role'] == 'assistant' %}"
        "{{ 'Falcon: ' }}{% endif %}{{ message['content'].replace('\\r\\n', '\\n').replace('\\n\\n', '\\n') }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '\n' + 'Falcon:' }}{% endif %}"),
    "vicuna": """\
{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] }} {% set loop_messages = messages[1:] -%}
{% else -%}
A chat between a user and an assistant. {% set loop_messages = messages %}{% endif -%}
{%- for message in loop_messages -%}
  {%- if message['role'] == 'user' -%}
USER: {{ message['content'] | trim }} {# #}
  {%- elif message['role'] == 'assistant' -%}
ASSISTANT: {{ message['content'] | trim }}{{ eos_token }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %} ASSISTANT:{% endif %}
""",
    "alpaca": """\
{%- for message in messages %}
{%- if message.role == "system" -%}
{{ message.content | trim }}

{% elif message.role == "user" -%}
### Instruction:
{{ message.content | trim }}

{% elif message.role == "assistant" -%}
### Response:
{{ message.content | trim }}

{% endif -%}
{% endfor -%}
{% if add_generation_prompt -%}
### Response:
{% endif %}
""",
    "solar": """\
{% for message in messages %}
    {%- set head = {'system': '### System:', 'user': '### User:', 'assistant': '### Assistant:'}.get(message.role, '### ' ~ message.role | capitalize ~ ':') %}
    {{- head + '\\n' }}
    {%+ if message.content %}{{ message.content | replace('\\t', '    ') | indent(2, first=true) }}{% endif %}

{% endfor %}
{%- if add_generation_prompt and messages[-1].role != 'assistant' %}{{ '### Assistant:\\n' }}{% endif -%}
""",
    "internlm": (
        "{% if messages[0]['role'] == 'user' or messages[0]['role'] == 'system' %}{{ bos_token }}{% endif %}{% for message in messages %}"
        "{% if message.role not in ['user', 'system', 'assistant'] %}{% continue %}{% endif %}{{ '<|im_start|>%s\n%s<|im_end|>\n' | "
        "format(message['role'], message['content']) }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
        "{% elif messages[-1]['role'] == 'assistant' %}{{ eos_token }}{% endif %}"),
    "hermes_tools": """\
{%- macro describe(name, spec, level=0, required=[]) -%}
    {{ '  ' * level }}- {{ name }}{{ '*' if name in required }} ({{ spec.type | default('any') }}): {{ spec.description | default('no description') | title }}
{%- if spec.properties is mapping %}
{% for key, child in spec.properties | dictsort %}
{{ describe(key, child, level=level + 1, required=spec.required or []) }}{{ '\\n' if not loop.last }}
{%- endfor %}
{%- endif %}
{%- endmacro -%}
{% for tool in tools or [] %}
{{ describe(tool.function.name, tool.function.parameters, required=[]) }}

{% endfor %}
{% for role, group in [('system', messages | selectattr('role', 'eq', 'system')), ('rest', messages | rejectattr('role', 'eq', 'system'))] %}
{% for m in group if m.content is string %}
[{{ role }}:{{ loop.index }}/{{ loop.length }}{{ ':last' if loop.last }}] {{ m.content | trim | truncate(40, true, '..', 0) }}
{% else %}
[{{ role }}: nothing]
{% endfor %}
{% endfor %}
""",
    "exaone": """\
{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ '[|system|][|endofturn|]\\n' }}{% endif %}{{ '[|' + message['role'] + '|]' + (message['content'] if message['content'] is not none else 'None') }}{% if loop.nextitem is defined and loop.nextitem.role == message.role %}{{ '(again)' }}{% endif %}{% if loop.previtem is defined and loop.previtem.role == message.role %}{{ '(still)' }}{% endif %}{% if message['role'] == 'user' %}{{ '\\n' }}{% else %}{{ '[|endofturn|]\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %}""",
    "call_blocks": """\
{% macro turn(role, tag='t') %}<{{ tag }} {{ kwargs | tojson }} {{ varargs | length }}>{{ role }}|{{ caller() }}</{{ tag }}>{% endmacro %}
{% for m in messages %}
{% call turn(m.role, 'x', 1, 2, n=loop.index) %}{{ m.content }}{{ '!' if loop.last }}{% endcall %}
{% if loop.index > 2 %}{% break %}{% endif %}

{% endfor %}
{% set block %}{% for m in messages %}{{ m.role[0] }}{% endfor %}{% endset %}
{% filter upper %}roles: {{ block }}{% endfilter %}
{% with first = messages[0], n = messages | length %} {{ first.role }} of {{ n }}{% endwith %}
""",
    "raw_and_whitespace": """\
{% raw %}{{ not a tag }} {% neither %}{% endraw %}
   {# a comment #}
  {%+ if true %} kept {% endif +%}
{%- for m in messages -%}
  {{- m.role -}} ,
{%- endfor -%}
    {% set x = 1 %}
x={{ x }}
	{% if x == 1 -%}
   y
   {%- endif %}

end{{ '\\n' }}
""",
}

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a place, \u00fcberall",
        "parameters": {"type": "object", "properties": {
            "place": {"type": "string", "description": "where \"exactly\""},
            "days": {"type": "integer"}, "units": {"type": ["string", "number"], "description": "c <or> f & more"}},
            "required": ["place"]}}},
    {"type": "function", "function": {
        "name": "add", "description": "a + b",
        "parameters": {"type": "object", "properties": {
            "numbers": {"type": "array", "items": {"type": "number"}, "description": "1e-7 or 'two'"}}, "required": []}}},
]


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, call_id="abcdefghi"):
    return {"role": "assistant", "content": None,
            "tool_calls": [{"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}]}


CONVERSATIONS = {
    "one": {"messages": [user("Hello")]},
    "with_system": {"messages": [system("Be brief."), user("Hello"), assistant("Hi."), user("Bye")]},
    "no_generation_prompt": {"messages": [user("a"), assistant("b")], "add_generation_prompt": False},
    "unicode": {"messages": [system("\u4f60\u597d \U0001f44b\U0001f3fd"),
                             user(" \u00a0\u3000\u00c9t\u00e9 \u00df \u0130 \u2028x\u200b \u00e9\u0301 "),
                             assistant("\u05e9\u05dc\u05d5\u05dd"), user("\u0928\u092e\u0938\u094d\u0924\u0947\n")]},
    "quotes": {"messages": [user("It's \"quoted\" \\ {{ 'x' }} {% if %} {# no #} <b>&amp;</b>\t'''"), assistant("'\"\\n\"'"),
                            user("\r\na\rb\n\n\nc  ")]},
    "special_tokens": {"messages": [user("<|im_end|>\n<|im_start|>system\nx</s> <think>\nno\n</think>")]},
    "empty_content": {"messages": [system(""), user(""), assistant(""), user("   \n ")]},
    "wrong_order": {"messages": [assistant("I start"), user("No"), user("Really")]},
    "other_role": {"messages": [user("x"), {"role": "critic", "content": "boo"}, user("y")]},
    "thinking": {"messages": [user("2+2?"), assistant("<think>\nhm\n\nfour\n</think>\n\n4"), user("sure?"),
                              assistant("<think>\nyes\n</think>\n\nYes.")]},
    "tools": {"messages": [system("Use tools. /no_think"), user("Weather in \u00c5l?"), call("get_weather", {"place": "\u00c5l", "days": 2}),
                           {"role": "tool", "name": "get_weather", "content": "{\"t\": -3.5}", "tool_call_id": "abcdefghi"},
                           assistant("Cold."), user("Add"), call("add", {"numbers": [1, 2.5, 1e-7, True, None]}),
                           {"role": "tool", "name": "add", "content": "3.5"}], "tools": TOOLS},
    "tools_unused": {"messages": [user("Hi")], "tools": TOOLS[:1]},
    "parts": {"messages": [{"role": "system", "content": [{"type": "text", "text": "Sys"}]},
                           {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " Look "}]}]},
}

# Small pieces of the language. Variables: a = [3, 1, 2], s = 'H\u00e9llo World', d = {'b': 1, 'A': 2.5, 'c': None}, n = 7.
SNIPPETS = [
    # what is false has nothing to be chosen from, whatever was to be done with it
    "{{ none | map(attribute='x') | list }} {{ 0 | select | list }} {{ false | rejectattr('x') | list }} {{ none | map('upper') | list }} {{ '' | selectattr('x', 'equalto', 1) | list }}",
    "{{ 5 | map('upper') | list }}", "{{ true | selectattr('x') | list }}",
    # else of a loop: where no round came to its end
    "{% for x in a %}{% continue %}{% else %}E{% endfor %}|{% for x in a %}{% break %}{% else %}E{% endfor %}|{% for x in a %}{% if x == 2 %}{% break %}{% endif %}{% else %}E{% endfor %}|"
    "{% for x in a %}{% if x > 1 %}{% continue %}{% endif %}{{ x }}{% else %}E{% endfor %}|{% for x in [] %}{% else %}E{% endfor %}",
    # parts that are searched
    "{{ s.find('l', 4) }} {{ s.find('l', 4, 9) }} {{ s.find('o', -3) }} {{ s.find('H', 1) }} {{ s.find('', 11) }} {{ s.find('', 12) }} {{ s.find('', 5, 3) }} {{ s.find('\u00e9', 1, -1) }}",
    "{{ s.rfind('l', 0, 4) }} {{ s.rfind('o', none, 6) }} {{ s.index('o', 5) }} {{ s.rindex('l', 0, -4) }} {{ s.count('l', 3) }} {{ s.count('l', 3, 9) }} {{ s.count('', 9) }} {{ s.count('l', -9, 99) }}",
    "{{ s.index('H', 1) }}",
    # equal keys need no order
    "{{ [{'x': none, 'y': 1}, {'x': none, 'y': 2}] | sort(attribute='x') | map(attribute='y') | list }} {{ [{'y': 2}, {'y': 1}] | sort(attribute='x,y') | map(attribute='y') | list }} {{ [none, none] | sort }}",
    "{{ [{'x': none}, {'x': 1}] | sort(attribute='x') }}",
    # printing
    "{{ true }} {{ none }} {{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 123456789.125 }} {{ -0.0 }} {{ 1e15 }} {{ 5e-324 }}",
    "{{ [1, 'a', \"it's\", none, true, 1.5, [], {}] }} {{ {'a': (1,), 'b': ()} }} {{ ('x', 'y\\n\\t\\\\') }}",
    "{{ ['\\x00\\x7f\\u00e9\\u200b\\U0001f600', '\"', '\\'\"'] }}",
    "{{ undefined_name }}|{{ [undefined_name] }}|{{ s.nothing }}|{{ d.nothing }}|{{ a[9] }}|{{ s['x'] }}|{{ n.x }}",
    "{{ d.keys() }} {{ d.values() | list }} {{ d.items() }} {{ range(3) }} {{ range(1, 7, 2) | list }} {{ range(5, 0, -2) | list }}",
    "{{ {} | items | list }} {{ d | items | list }} {{ undefined_name | items | list }}",
    # operators
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}",
    "{{ 2 ** 3 ** 2 }} {{ 1 + 2 * 3 - 4 / 2 }} {{ (1 + 2) * 3 }} {{ 10 - 3 - 2 }} {{ - - 3 }} {{ +3 }} {{ -n }}",
    "{{ 'a' * 3 }} {{ [1] * 2 }} {{ 'ab' + 'c' }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 1 ~ 'a' ~ none ~ true ~ 1.5 ~ undefined_name }}",
    "{{ true + true }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ none == none }} {{ none == false }} {{ undefined_name == undefined_other }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1, 'a') == (1, 'a') }} {{ [1] != [2] }}",
    "{{ 1 in a }} {{ 9 not in a }} {{ 'H' in s }} {{ 'b' in d }} {{ 'x' in undefined_name }} {{ 2 in range(3) }} {{ (1, 2) in [(1, 2)] }} {{ not 1 in a }}",
    "{{ 1 and 2 }} {{ 0 or 'x' }} {{ not '' }} {{ none or 0 }} {{ '' and 1 }} {{ not not 1 }} {{ undefined_name or 'd' }} {{ not undefined_name }}",
    "{{ 'y' if n > 5 else 'n' }} {{ 'y' if n > 9 }} {{ 1 if 0 else 2 if 0 else 3 }} {{ (1 if n) + 1 }}",
    "{{ 'a' if true if false else 'b' }}|{{ n if n is defined and n > 3 else 0 }}",
    "{{ {'a': {'b': [1, {'c': 5}]}}.a.b[1].c }} {{ [[1, 2], [3]][0][1] }} {{ 'abc'[1] }} {{ a.0 }} {{ (1, 2, 3)[-1] }} {{ d['b'] }}",
    "{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5e3 }} {{ 2E-2 }} {{ 'a' 'b' \"c\" }}",
    "{{ 'tab\\tnl\\\\n \\'q\\' \\x41\\u00e9\\101 \\q' }}",
    # slices
    "{{ a[1:] }} {{ a[:-1] }} {{ a[::-1] }} {{ a[::2] }} {{ a[-2:] }} {{ a[5:] }} {{ a[2:0:-1] }} {{ a[:] }} {{ a[-100:100] }} {{ a[0:3:2] }}",
    "{{ s[1:4] }} {{ s[::-1] }} {{ s[-3:] }} {{ s[:0] }}| {{ s[100:] }}| {{ s[1] }} {{ s[-1] }} {{ s[3:1:-1] }} {{ (1, 2, 3)[1:] }} {{ range(10)[2:5] | list }}",
    "{{ a[none:2] }} {{ a[n:] }} {{ s[::n] }}",
    # set and scopes
    "{% set x = 1 %}{% for i in a %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for i in a %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }} {{ ns.y }} {{ ns['x'] }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set t = 1, %}{{ t }}",
    "{% set ns = namespace({'a': 1}, b=2) %}{% set ns.a, y = ns.b, ns.a %}{{ ns.a }}{{ y }}",
    "{% if n > 1 %}{% set inside = 'yes' %}{% endif %}{{ inside }} {% if n > 99 %}{% set other = 1 %}{% endif %}[{{ other }}]",
    "{% for i in a %}{% if loop.first %}{% set seen = i %}{% endif %}[{{ seen }}]{% endfor %}{{ seen }}|{{ i }}|{{ loop }}",
    "{% set x %}a{{ n }}{% set y = 5 %}{% endset %}{{ x }}{{ y }} {% set z | upper | replace('A', 'b') %}xa{% endset %}{{ z }}",
    "{% with x = 1, y = n %}{{ x }}{{ y }}{% set x = 2 %}{{ x }}{% endwith %}{{ x }}",
    "{% macro m(x, y=2, z=x) %}{{ x }}{{ y }}{{ z }}{% endmacro %}{{ m(1) }} {{ m(1, z=3) }} {{ m(y=5, x=4) }} {{ m() }} {{ m(*[7, 8]) }} {{ m(**{'x': 9}) }}",
    "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(5) | length }} {{ f(3) }}",
    "{% macro g() %}{{ later }}{% endmacro %}{% set later = 'late' %}{{ g() }}",
    "{% set x = 'out' %}{% macro g() %}{{ x }}{% set x = 'in' %}{{ x }}{% endmacro %}{{ g() }}{{ x }}",
    "{% macro outer() %}({{ caller('v') }}){% endmacro %}{% call(arg) outer() %}{{ arg }}{{ n }}{% endcall %}",
    "{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, a=3) }}",
    "{% filter replace('a', 'b') | upper %}a{{ n }}a{% endfilter %}",
    # loops
    "{% for x in a %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for x in a if x > 1 %}{{ loop.index }}:{{ x }}{{ ',' if not loop.last }}{% else %}none{% endfor %}",
    "{% for x in [] %}{{ x }}{% else %}empty{% endfor %} {% for x in a if x > 9 %}x{% else %}no{% endfor %} {% for x in undefined_name %}x{% else %}undef{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'h\u00e9' %}[{{ c }}]{% endfor %}",
    "{% for x in a %}{{ loop.cycle('odd', 'even') }}{{ loop.changed(x > 1) }} {% endfor %}",
    "{% set c = cycler('a', 1, none) %}{% for x in range(4) %}{{ c.next() }}{{ c.current }}{% endfor %}{% set r = c.reset() %}{{ r }}{{ c['next']() }}",
    "{% set j = joiner() %}{% set k = joiner(sep='|') %}{% for x in a %}{{ j() }}{{ k() }}{{ x }}{% endfor %}{{ joiner(5)() is string }}",
    "{% macro m(j) %}{{ j() }}{% endmacro %}{% set j = joiner('+') %}{{ m(j) }}{{ m(j) }} {{ j is callable }} {{ cycler(1) is callable }} {{ cycler(1) is iterable }} {{ cycler(1) is defined }}",
    "{{ cycler(1).nothing is defined }} {{ 'cycler' if cycler else 'none' }} {{ 1 if joiner() else 2 }}",
    "{% set cycler = 5 %}{{ cycler }} {{ cycler(1) }}",
    "{{ 'Hello World' .swapcase() }} {{ 'h\u00c9llo \u00df \u01c5 1_A' .swapcase() }} {{ s.swapcase() }}",
    "{{ ('a\nb' | indent(1500)) | length }} {{ ('a' | indent('x' * 2000, true)) | length }} {{ [1] | tojson(indent=1200) | length }}",
    "{{ 'a\nb' | indent(-3) }} {{ [1] | tojson(indent=-1) }}",
    "{% for x in a %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in a %}{% for y in a %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for x in a if not ns.stop %}{{ x }}{% if x == 1 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "{% for x in a if x != 1 %}{{ loop.length }}{{ loop.revindex }} {% endfor %}",
    "{% for (x, y), z in [((1, 2), 3)] %}{{ x }}{{ y }}{{ z }}{% endfor %}{% for x, in [(1,)] %}{{ x }}{% endfor %}",
    "{% set g = a | select('gt', 1) %}{{ g | list }}{{ g | list }}{{ 'T' if [] | select }}",
    # tests
    "{{ n is defined }} {{ q is defined }} {{ q is undefined }} {{ none is none }} {{ q is none }} {{ 1 is number }} {{ true is number }} {{ 'x' is number }} {{ 1.5 is float }}",
    "{{ 's' is string }} {{ d is mapping }} {{ a is mapping }} {{ a is iterable }} {{ 's' is iterable }} {{ 1 is iterable }} {{ q is iterable }} {{ none is iterable }}",
    "{{ a is sequence }} {{ 's' is sequence }} {{ d is sequence }} {{ 1 is sequence }} {{ d.items() is sequence }} {{ q is sequence }} {{ range(2) is sequence }}",
    "{{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 1 is integer }} {{ true is integer }} {{ 3 is odd }} {{ 4 is even }} {{ 6 is divisibleby 3 }}",
    "{{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is ne 2 }} {{ 2 is gt 1 }} {{ 1 is lt(2) }} {{ 2 is ge 2 }} {{ 2 is le 1 }} {{ 1 is in [1] }} {{ n is not none }} {{ none is sameas none }}",
    "{{ 'ABC' is upper }} {{ 'abc' is lower }} {{ 'aB1' is lower }} {{ '1' is upper }} {{ range is callable }} {{ 'trim' is filter }} {{ 'odd' is test }} {{ n is not odd }} {{ n is odd and n is number }}",
    # filters
    "{{ '  x ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ 12 | trim }} {{ s | upper }} {{ s | lower }} {{ 'hello wORLD foo-bar (baz' | title }} {{ 'hELLO' | capitalize }}",
    "{{ a | length }} {{ s | count }} {{ d | length }} {{ q | length }} {{ '' | length }} {{ '\U0001f600\u00e9' | length }}",
    "{{ a | join }} {{ a | join(', ') }} {{ [{'x': 1}, {'x': 'b'}] | join('-', attribute='x') }} {{ 'abc' | join('.') }} {{ d | join }} {{ [none, true] | join('/') }}",
    "{{ a | sort }} {{ a | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }} {{ [{'k': 2}, {'k': 1}] | sort(attribute='k') }}",
    "{{ a | first }} {{ a | last }} {{ s | first }} {{ s | last }} {{ [] | first }}| {{ d | last }} {{ a | min }} {{ a | max }} {{ a | sum }} {{ [] | max }}| {{ [{'x': 1}, {'x': 2}] | sum(attribute='x') }} {{ [1.5] | sum(start=1) }}",
    "{{ a | reverse | list }} {{ s | reverse }} {{ 'abc' | list }} {{ d | list }} {{ ['a', 'A', 'b'] | unique | list }} {{ [1, 1.0, 2] | unique | list }} {{ range(5) | batch(2) | list }} {{ range(3) | batch(2, 'x') | list }}",
    "{{ d | dictsort }} {{ d | dictsort(true) }} {{ {'x': 2, 'y': 1} | dictsort(by='value') }} {{ {'x': 2, 'y': 1} | dictsort(reverse=true) }}",
    "{{ q | default('x') }} {{ none | default('x') }} {{ none | default('x', true) }} {{ '' | d('y', boolean=true) }} {{ 0 | default }} [{{ q | default }}]",
    "{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '3.9' | int }} {{ 3.9 | int }} {{ ' 7 ' | int }} {{ '1_0' | int }} {{ 'ff' | int(base=16) }} {{ none | int }} {{ true | int }} {{ '-5' | int }}",
    "{{ '1.5' | float }} {{ 'x' | float }} {{ 2 | float }} {{ 'inf' | float }} {{ -3 | abs }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.567 | round(2) }} {{ 7 | round }} {{ 2.1 | round(0, 'ceil') }} {{ 2.19 | round(1, 'floor') }} {{ 1234.5 | round(-2) }}",
    "{{ 5 | string + 'x' }} {{ [1] | string }} {{ '<a href=\"x\">&\\'' | escape }} {{ '<b>' | safe }} {{ '<' | e }}",
    "{{ 'aaa' | replace('a', 'b') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'abc' | replace('', '-') }} {{ 123 | replace(2, 'x') }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb\n\nc' | indent(2, true) }}|{{ 'a\n\nb' | indent(1, blank=true) }}|{{ 'a\nb' | indent('> ') }}",
    "{{ [1, 2, 3] | map('string') | list }} {{ ['a', 'b'] | map('upper') | join }} {{ [{'x': {'y': 1}}] | map(attribute='x.y') | list }} {{ [{'x': 1}, {}] | map(attribute='x', default='-') | list }} {{ ['a'] | map('replace', 'a', 'b') | list }}",
    "{{ a | select('odd') | list }} {{ a | reject('odd') | list }} {{ [0, 1, ''] | select | list }} {{ [{'r': 'u'}, {'r': 'a'}, {}] | selectattr('r', 'equalto', 'u') | list }} {{ [{'r': 1}, {}] | selectattr('r') | list }} {{ [{'r': 1}, {}] | rejectattr('r', 'defined') | list }} {{ a | select('in', [1, 2]) | list }}",
    "{{ 'x' | center(5) }}| {{ 'xx' | center(5) }}| {{ '%s is %d%% %5.2f|%-5s|%05d|%x|%r' | format('a', 3, 2.345, 'b', 42, 255, 'q') }} {{ '%(a)s' | format(a=1) }} {{ 'one two, three' | wordcount }}",
    "{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo bar baz qux' | truncate(11) }} {{ 'foo bar baz qux' | truncate(11, false, '...', 0) }}",
    "{{ d | tojson }} {{ [1, 'a\"\\\\\\n\\t\\x01\\u00e9\\u2028<>&', true, none, 1.0, 1e100, []] | tojson }} {{ {} | tojson }} {{ 'x' | tojson }} {{ (1, 2) | tojson }}",
    "{{ {'a': [1, {'b': []}], 'c': {}} | tojson(indent=2) }} {{ [1, 2] | tojson(indent=0) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }} {{ [1, {'a': 2}] | tojson(separators=(',', ':')) }} {{ '\u00e9\U0001f600' | tojson(ensure_ascii=true) }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ [1] | tojson(indent='\\t') }}",
    # methods
    "{{ ' x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'abc'.lstrip('ab') }}|{{ 'abc'.rstrip('bc') }}|{{ '\u00e9a\u00e9'.strip('\u00e9') }}|{{ '\u3000x\u00a0'.strip() }}|",
    "{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.rsplit(maxsplit=1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'aXXbXXc'.split('XX')[-1] }}",
    "{{ s.upper() }} {{ s.lower() }} {{ 'they\\'re bill\u00e9 x1y'.title() }} {{ '\u00e9COLE'.capitalize() }} {{ 'stra\u00dfe'.upper() }} {{ 'a-b'.replace('-', '+').replace('a', '', 1) }}",
    "{{ s.startswith('H\u00e9') }} {{ s.endswith(('x', 'ld')) }} {{ s.startswith('llo', 2) }} {{ s.find('l') }} {{ s.rfind('l') }} {{ s.find('z') }} {{ s.index('W') }} {{ s.count('l') }} {{ 'aaaa'.count('aa') }}",
    "{{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'x'.partition('=') }} {{ 'prefix'.removeprefix('pre') }} {{ 'file.txt'.removesuffix('.txt') }}",
    "{{ ', '.join(['a', 'b']) }} {{ '-'.join('abc') }} {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'x'.ljust(3, '.') }} {{ 'x'.rjust(3) }} {{ 'x'.center(4, '*') }} {{ 'ab'.center(5, '*') }}",
    "{{ '{} {} {0}'.format(1, 'b') if false else '{0} {1} {0}'.format(1, 'b') }} {{ '{a}-{b[0]}-{c.x}'.format(a=1, b=[2], c={'x': 3}) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:x}|{{}}|{!r}'.format('a', 'b', 'c', 42, 3.14159, 255, 'q') }} {{ '{:,}'.format(1234567) }}",
    "{{ '123'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ ''.isalpha() }} {{ 'A'.isupper() }} {{ 'a'.islower() }}",
    "{{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 5) }} {{ d.items() | list }} {{ {'items': 1}['items'] }} {{ {'items': 1}.items is callable }} {{ {'x': 1}.copy() }} {{ a.index(1) }} {{ a.count(1) }}",
    "{{ 'a %s %s' % ('b', 3) }} {{ '%d' % 3.7 }} {{ '%5s|%-5s|' % ('a', 'b') }} {{ '%.3s' % 'abcdef' }} {{ '%%' % () }} {{ '%s' % none }} {{ '%e %g' % (12345.678, 0.0001) }}",
    "{{ {'_x': 1}._x }} {{ {'_x': 1}['_x'] }} {{ s._x }} {{ {'keys': 5}.keys is callable }} {{ {'keys': 5}['keys'] }}",
    "{{ dict(a=1, b=2) }} {{ dict([('x', 1)], y=2) }} {{ dict({'p': 1}) }}",
    "{{ strftime_now('%Y-%m-%d %H:%M:%S %j %A %b %B %p %y %%') }}",
    # white space
    "a\n  {% if true %}\n  b\n  {% endif %}\nc",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\nc",
    "  {{ n }}  \n  {{- n -}}  \n x",
    "a  {% if true %} b {% endif %}\n\n c\n",
    "{# c #}\n  {# c2 -#}  \n x {#- c3 #} y",
    "x\n\t{%+ if true +%}\n y{% endif %}\n\n",
    "{% if true %}{% endif %}\n{% raw -%}  {{ x }} {%- endraw %}  z",
    "a\r\nb\rc{% if true %}\r\nd{% endif %}\r\n",
    "{% for x in a -%}\n   {{ x }}\n{%- endfor %}\n",
    "{{ '{{' }} {{ \"}}\" }} {{ '%}' }} { { } } {%raw%}{{{%endraw%}",
    "{{ {'a': {'b': 1}}['a'] }}}}",
    # errors
    "{{ raise_exception('Stop: ' ~ n) }}",
    "{{ undefined_name.x }}", "{{ undefined_name['x'] }}", "{{ undefined_name + 1 }}", "{{ undefined_name() }}", "{{ undefined_name < 1 }}",
    "{{ -undefined_name }}", "{{ none.x.y }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ none + 'a' }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ 1.0 // 0 }}",
    "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ 1 in 2 }}", "{{ 1 in 'a' }}", "{{ 'x' in none }}", "{{ none | length }}", "{{ 5 | length }}", "{{ a | map('upper') | length }}",
    "{{ n() }}", "{{ a.append(1) }}", "{{ d.update({}) }}", "{{ d.pop('b') }}", "{{ ''.__class__.x }}", "{{ a.nothing() }}", "{{ range(1000000) }}",
    "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x, y in [1] %}{% endfor %}", "{% for x, y in [(1, 2, 3)] %}{% endfor %}",
    "{% set x.y = 1 %}", "{% set d.y = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{{ namespace(_x=1) }}",
    "{% macro m(x) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(x) %}{% endmacro %}{{ m(y=2) }}", "{{ none | tojson(5, 6, 7, 8, 9) }}", "{{ q | tojson }}", "{{ {'a': q} | tojson }}",
    "{{ ''.join([1]) }}", "{{ 'a'.split('') }}", "{{ 'a'.index('b') }}", "{{ '%d' % 'x' }}", "{{ '%s %s' % 'x' }}", "{{ '%s' % (1, 2) }}", "{{ '{}'.format() }}", "{{ [1, 'a'] | sort }}",
    "{{ [1, 2] | sum(start='a') }}", "{{ a[::0] }}", "{{ {[1]: 2} }}", "{{ q | int }}", "{{ x | nofilter }}", "{{ x is notest }}", "{% if q.x %}{% endif %}",
    "{% if true %}", "{% endif %}", "{% for x in %}{% endfor %}", "{% for %}{% endfor %}", "{{", "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{{ [1, }}", "{{ {1} }}",
    "{% unknown %}", "{% if %}x{% endif %}", "{% set x %}", "{% set 1 = 2 %}", "{% set none = 2 %}", "{% macro %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{# no end", "{% raw %}x",
    "{{ 'open }}", "{{ 1 ! 2 }}", "{{ a | }}", "{{ a.| }}", "{{ n is }}", "{% break %}", "{% for x in a %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{{ f(a=1, 2) }}", "{{ '\\xZZ' }}", "{% else %}",
    "{% if true %}{% endfor %}", "{% for x in a %}{% else %}{% else %}{% endfor %}", "{% call x %}{% endcall %}", "{% block %}", "{{ a b }}", "{{ loop.index }}", "{{ not }}", "{{ 1 if }}", "{{ $ }}",
]
SNIPPET_VARIABLES = {"a": [3, 1, 2], "s": "H\u00e9llo World", "d": {"b": 1, "A": 2.5, "c": None}, "n": 7}
