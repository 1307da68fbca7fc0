//! What a GGUF file carries for the text side.

mod common;

use common::{data, load};
use dflash_models::TextAssets;

const KEY: &str = "tokenizer.chat_template.tool_use";
const TEMPLATE: &str = "{{ tools }}.";
/// `GGUF`, version and two counts, the second of which is that of the metadata.
const HEADER: usize = 24;

/// `file` with one more text in its metadata. Its length is a multiple of the alignment, so tensors stay in place.
fn with_template(mut file: Vec<u8>) -> Vec<u8> {
    let mut entry = (KEY.len() as u64).to_le_bytes().to_vec();
    entry.extend(KEY.bytes());
    entry.extend(8u32.to_le_bytes());
    entry.extend((TEMPLATE.len() as u64).to_le_bytes());
    entry.extend(TEMPLATE.bytes());
    assert_eq!(entry.len() % 32, 0);
    let count = u64::from_le_bytes(file[16..HEADER].try_into().unwrap());
    file.splice(16..HEADER, (count + 1).to_le_bytes());
    file.splice(HEADER..HEADER, entry);
    file
}

#[test]
fn a_template_of_its_own_for_tools_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools.gguf");
    std::fs::write(&path, with_template(std::fs::read(data("gguf/f16.gguf")).unwrap())).unwrap();
    let text = |path: &std::path::Path| match load(path, &common::backend()).unwrap().text {
        TextAssets::Gguf(text) => text,
        TextAssets::Hf { .. } => panic!("a GGUF brings its vocabulary"),
    };
    let (with, without) = (text(&path), text(&data("gguf/f16.gguf")));
    assert_eq!(with.template_for(true), Some(TEMPLATE));
    assert_eq!(with.template_for(false), without.template_for(false));
    assert_eq!(without.template_for(true), without.chat_template.as_deref());
}
