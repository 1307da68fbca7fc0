use serde_json::{Value, json};

use crate::common::{Server, Setup};
use crate::steady;

const TEXT: &str = "/v1/completions";

async fn answer(server: &Server, body: &Value) -> Value {
    let answer = server.post(TEXT, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

#[tokio::test]
async fn an_answer_has_its_parts() {
    let server = Setup { drafts: true, ..Setup::default() }.open();
    let body = json!({"prompt": "Once upon", "max_tokens": 4, "logprobs": 1});
    let body = steady(answer(&server, &body).await);
    insta::assert_json_snapshot!(body, {
        ".choices[].logprobs.token_logprobs[]" => insta::rounded_redaction(3),
        ".choices[].logprobs.top_logprobs[].*" => insta::rounded_redaction(3),
    });
}

#[tokio::test]
async fn prompts_in_every_form() {
    let server = Server::new();
    let choices = |prompt: Value| {
        let server = &server;
        async move { answer(server, &json!({"prompt": prompt, "max_tokens": 6})).await["choices"].take() }
    };
    let text = choices(json!("ab")).await;
    // The bytes are the ids, and this model's prompts begin with nothing.
    assert_eq!(choices(json!([97, 98])).await, text);
    assert_eq!(choices(json!(["ab"])).await, text);
    assert_eq!(choices(json!([[97, 98]])).await, text);
    let both = choices(json!(["ab", "xyz"])).await;
    assert_eq!(both[0], text[0]);
    assert_eq!(
        (both[1]["index"].as_u64(), &both[1]["text"]),
        (Some(1), &choices(json!("xyz")).await[0]["text"])
    );
}

#[tokio::test]
async fn several_prompts_with_several_answers() {
    let server = Server::new();
    let mut body = json!({"prompt": ["ab", "xyz"], "n": 2, "temperature": 1, "seed": 1, "max_tokens": 5});
    let whole = answer(&server, &body).await;
    assert_eq!(whole["choices"].as_array().unwrap().len(), 4);
    assert_eq!(whole["usage"]["prompt_tokens"], 5);
    assert_eq!(whole["usage"]["completion_tokens"], 20);
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let chunks = server.post(TEXT, &body).await.chunks();
    for (index, choice) in whole["choices"].as_array().unwrap().iter().enumerate() {
        let parts = || {
            chunks
                .iter()
                .flat_map(|chunk| chunk["choices"].as_array().unwrap())
                .filter(|part| part["index"] == index)
        };
        let text: String = parts().map(|part| part["text"].as_str().unwrap()).collect();
        assert_eq!(choice["text"], text);
        assert_eq!(parts().filter(|part| !part["finish_reason"].is_null()).count(), 1);
    }
    assert_eq!(chunks.last().unwrap()["usage"], whole["usage"]);
}

#[tokio::test]
async fn control_tokens_may_be_written_in_a_prompt() {
    let server = Server::new();
    let tokens = answer(&server, &json!({"prompt": "<|im_start|>", "max_tokens": 1})).await;
    assert_eq!(tokens["usage"]["prompt_tokens"], 1);
}

#[tokio::test]
async fn a_text_is_cut_at_a_stop_string_in_a_stream_too() {
    let server = Server::new();
    let whole = answer(&server, &json!({"prompt": "ab", "max_tokens": 16})).await;
    let whole = whole["choices"][0]["text"].as_str().unwrap().to_owned();
    let stop = &whole[4..6];
    let body = json!({"prompt": "ab", "max_tokens": 16, "stop": stop, "stream": true, "logprobs": 0});
    let chunks = server.post(TEXT, &body).await.chunks();
    let text: String = chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(text, whole[..whole.find(stop).unwrap()]);
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn a_format_is_kept_here_too() {
    let server = Server::new();
    let format = json!({"type": "choice", "choices": ["left", "right"]});
    let body = json!({"prompt": ["ab", "xyz"], "max_tokens": 20, "response_format": format});
    for choice in answer(&server, &body).await["choices"].as_array().unwrap() {
        assert!(["left", "right"].contains(&choice["text"].as_str().unwrap()), "{choice}");
    }
}
