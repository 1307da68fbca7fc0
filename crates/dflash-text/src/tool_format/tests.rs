use super::*;

#[test]
fn templates_say_how_calls_are_written() {
    let format = ToolFormat::of_template;
    assert_eq!(format("'<|tool_call>call:' … '<tool_call|>'"), ToolFormat::Gemma);
    assert_eq!(format("<|tool_list_start|> <tool_call>"), ToolFormat::Lfm2);
    assert_eq!(format("<tool_call>\\n<function=' ~ name"), ToolFormat::QwenXml);
    assert_eq!(format("<tool_call>\n<function=NAME>"), ToolFormat::QwenXml);
    assert_eq!(format("[TOOL_CALLS]"), ToolFormat::Mistral);
    assert_eq!(format("<tool_call>{{ tool_call.name }}"), ToolFormat::JsonTags);
    assert_eq!(format("<|python_tag|>"), ToolFormat::Llama);
    assert_eq!(format("tools | tojson"), ToolFormat::Json);
}
