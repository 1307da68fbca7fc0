/// The form of a model's tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>` (Hermes, Qwen).
    JsonTags,
    /// `<tool_call><function=…><parameter=…>…</parameter></function></tool_call>` (Qwen3-Coder, Qwen3.5).
    QwenXml,
    /// `<|tool_call>call:NAME{key:value}<tool_call|>`.
    Gemma,
    /// `<|python_tag|>{"name": …, "parameters": {…}}`, or that object alone at the start of the answer.
    Llama,
    /// `<|tool_call_start|>[f(a=1)]<|tool_call_end|>`.
    Lfm2,
    /// `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, or `[TOOL_CALLS]NAME[ARGS]{…}`.
    Mistral,
    /// A JSON object or list at the start of the answer, for templates that show tools and name no form.
    Json,
}
