use serde_json::{Value, json};

use crate::common::{Server, Setup};
use crate::{chat, steady};

const CHAT: &str = "/v1/chat/completions";

async fn answer(server: &Server, more: Value) -> Value {
    let answer = server.post(CHAT, &chat(more)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

fn content(body: &Value) -> &str {
    body["choices"][0]["message"]["content"].as_str().unwrap()
}

#[tokio::test]
async fn an_answer_has_its_parts() {
    let server = Setup { drafts: true, ..Setup::default() }.open();
    insta::assert_json_snapshot!(steady(answer(&server, json!({"max_tokens": 40})).await));
}

#[tokio::test]
async fn the_short_path_is_the_same_route() {
    let server = Server::new();
    let short = server.post("/chat/completions", &chat(json!({}))).await.json();
    assert_eq!(steady(short), steady(answer(&server, json!({})).await));
}

#[tokio::test]
async fn exactly_as_many_ids_as_asked_for() {
    let server = Setup { drafts: true, ..Setup::default() }.open();
    for limit in [1, 2, 3] {
        for field in ["max_tokens", "max_completion_tokens"] {
            let body = answer(&server, json!({field: limit})).await;
            assert_eq!(body["usage"]["completion_tokens"], limit);
            assert_eq!(body["choices"][0]["finish_reason"], "length");
        }
    }
    let both = answer(&server, json!({"max_tokens": 5, "max_completion_tokens": 2})).await;
    assert_eq!(both["usage"]["completion_tokens"], 2);
}

#[tokio::test]
async fn a_limit_beyond_the_context_means_all_of_it() {
    // No id is ever the end.
    let biases: serde_json::Map<_, _> =
        (0..257).map(|id| (id.to_string(), json!(if id == 97 { 100 } else { 0 }))).collect();
    let server = Server::new();
    let prompt = "x".repeat(crate::common::CONTEXT - 60);
    let messages = json!([{"role": "user", "content": prompt}]);
    let body =
        answer(&server, json!({"messages": messages, "max_tokens": 10_000_000, "logit_bias": biases})).await;
    let usage = &body["usage"];
    assert_eq!(usage["total_tokens"], crate::common::CONTEXT);
    assert_eq!(body["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn the_text_ends_before_a_stop_string() {
    let server = Setup { drafts: true, ..Setup::default() }.open();
    let whole = answer(&server, json!({"max_tokens": 24})).await;
    let whole = content(&whole).to_owned();
    for (start, end) in [(0, 1), (0, 3), (5, 9), (10, 11)] {
        let stop = &whole[start..end];
        let at = whole.find(stop).unwrap();
        for stops in [json!(stop), json!(["\u{1}never", stop])] {
            let cut = answer(&server, json!({"max_tokens": 24, "stop": stops})).await;
            assert_eq!(content(&cut), &whole[..at]);
            assert_eq!(cut["choices"][0]["finish_reason"], "stop");
        }
    }
}

#[tokio::test]
async fn a_stop_string_that_is_whole_within_the_limit_wins() {
    let server = Setup { drafts: true, ..Setup::default() }.open();
    // Printable characters alone, so that an id is a character.
    let others = (0..262).filter(|id| !(32..127).contains(id));
    let biases: serde_json::Map<_, _> = others.map(|id| (id.to_string(), json!(-100))).collect();
    let whole = answer(&server, json!({"max_tokens": 24, "logit_bias": biases})).await;
    let whole = content(&whole).to_owned();
    assert_eq!(whole.len(), 24);
    let (start, end) = (10, 14);
    let at = whole.find(&whole[start..end]).unwrap();
    let end = at + end - start;
    for (limit, text, finish) in
        [(end - 1, &whole[..end - 1], "length"), (end, &whole[..at], "stop"), (end + 1, &whole[..at], "stop")]
    {
        let wish =
            json!({"max_tokens": limit, "stop": &whole[at..end], "logprobs": true, "logit_bias": biases});
        let cut = answer(&server, wish).await;
        assert_eq!((content(&cut), &cut["choices"][0]["finish_reason"]), (text, &json!(finish)), "{limit}");
        let ids = cut["choices"][0]["logprobs"]["content"].as_array().unwrap().len();
        assert_eq!((ids, &cut["usage"]["completion_tokens"]), (limit.min(end), &json!(ids)), "{limit}");
    }
}

#[tokio::test]
async fn an_unfinished_character_comes_out_once() {
    let server = Server::new();
    // The first byte of é again and again: no second one follows.
    let wish = json!({"max_tokens": 3, "logit_bias": {"195": 100}});
    assert_eq!(content(&answer(&server, wish).await), "\u{FFFD}\u{FFFD}\u{FFFD}");
}

#[tokio::test]
async fn several_answers_have_an_index_and_noise_of_their_own() {
    let server = Server::new();
    let wish = json!({"n": 3, "temperature": 1, "seed": 7});
    let body = answer(&server, wish.clone()).await;
    let choices = body["choices"].as_array().unwrap();
    let texts: Vec<&str> =
        choices.iter().map(|choice| choice["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(texts[0] != texts[1] && texts[1] != texts[2]);
    assert_eq!(body["dflash"]["seed"], 7);
    // The seed belongs to the request: what came between changes nothing.
    let again = answer(&server, wish).await;
    assert_eq!(body["choices"], again["choices"]);
    assert_eq!(body["dflash"]["ids_sha256"], again["dflash"]["ids_sha256"]);
    let alone = answer(&server, json!({"temperature": 1, "seed": 7})).await;
    assert_eq!(content(&alone), texts[0]);
}

#[tokio::test]
async fn a_drawn_seed_is_told_and_gives_the_same_text() {
    let server = Server::new();
    let first = answer(&server, json!({"temperature": 0.9})).await;
    let again = answer(&server, json!({"temperature": 0.9, "seed": first["dflash"]["seed"]})).await;
    assert_eq!(content(&first), content(&again));
}

#[tokio::test]
async fn every_sampling_field_has_an_effect() {
    let server = Server::new();
    let drawn = json!({"temperature": 1.5, "seed": 3, "max_tokens": 24});
    let base = answer(&server, drawn.clone()).await;
    for (name, value) in [
        ("temperature", json!(0.3)),
        ("top_p", json!(0.1)),
        ("top_k", json!(2)),
        ("min_p", json!(0.9)),
        ("repetition_penalty", json!(5)),
        ("presence_penalty", json!(2)),
        ("frequency_penalty", json!(2)),
        ("seed", json!(4)),
        ("logit_bias", json!({"65": 100})),
    ] {
        let mut wish = drawn.clone();
        wish[name] = value;
        assert_ne!(content(&answer(&server, wish).await), content(&base), "{name}");
    }
}

#[tokio::test]
async fn drafting_changes_no_id() {
    let server = Setup { drafts: true, ..Setup::default() }.open();
    for more in [json!({}), json!({"temperature": 1, "seed": 5})] {
        let mut wish = more;
        wish["max_tokens"] = json!(60);
        let with = answer(&server, wish.clone()).await;
        wish["dflash"] = json!({"speculative": false});
        let without = answer(&server, wish).await;
        assert_eq!(with["choices"], without["choices"]);
        assert_eq!(with["dflash"]["ids_sha256"], without["dflash"]["ids_sha256"]);
        assert_eq!(without["dflash"]["drafted"], 0);
        assert_eq!(without["dflash"]["tokens_per_cycle"].as_f64().map(f64::round), Some(1.0));
    }
}

#[tokio::test]
async fn short_answers_and_long_prompts_may_be_decoded_plainly() {
    let drafted = |settings| async {
        let server = Setup { drafts: true, settings, ..Setup::default() }.open();
        answer(&server, json!({"max_tokens": 60})).await["dflash"]["drafted"].as_u64().unwrap()
    };
    use dflash_server::ServerSettings;
    let normal = drafted(ServerSettings::default()).await;
    assert!(normal > 0);
    assert_eq!(drafted(ServerSettings { fastpath_max_tokens: 60, ..ServerSettings::default() }).await, 0);
    assert_eq!(
        drafted(ServerSettings { fastpath_max_tokens: 59, ..ServerSettings::default() }).await,
        normal
    );
    assert_eq!(drafted(ServerSettings { speculative_prompt: Some(3), ..ServerSettings::default() }).await, 0);
}

#[tokio::test]
async fn what_is_not_drafted_or_refused_is_that_request_alone() {
    let settings = dflash_server::ServerSettings {
        speculative_prompt: Some(60),
        ..dflash_server::ServerSettings::default()
    };
    let server = Setup { drafts: true, settings, ..Setup::default() }.open();
    let drafted = |body: &Value| body["dflash"]["drafted"].as_u64().unwrap();
    let short = json!({"max_tokens": 60});
    let first = answer(&server, short.clone()).await;
    assert!(drafted(&first) > 0);
    let long = json!({"max_tokens": 60, "messages": [{"role": "user", "content": "word ".repeat(40)}]});
    assert_eq!(drafted(&answer(&server, long).await), 0);
    let picture = json!([{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "x"}}]);
    let picture = chat(json!({"messages": [{"role": "user", "content": picture}]}));
    assert_eq!(server.post(CHAT, &picture).await.status, 400);
    let again = answer(&server, short).await;
    assert_eq!((again["choices"].clone(), drafted(&again)), (first["choices"].clone(), drafted(&first)));
}

#[tokio::test]
async fn log_probabilities_are_one_for_every_id() {
    let server = Setup { drafts: true, ..Setup::default() }.open();
    let told = answer(&server, json!({"max_tokens": 4, "logprobs": true, "top_logprobs": 2})).await;
    insta::assert_json_snapshot!(told["choices"][0]["logprobs"], {".**.logprob" => insta::rounded_redaction(3)});
    let many = answer(&server, json!({"max_tokens": 40, "logprobs": true})).await;
    let entries = many["choices"][0]["logprobs"]["content"].as_array().unwrap().len();
    assert_eq!(entries as u64, many["usage"]["completion_tokens"].as_u64().unwrap());
    assert!(answer(&server, json!({})).await["choices"][0]["logprobs"].is_null());
}

#[tokio::test]
async fn messages_in_every_form() {
    let server = Server::new();
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let tool = json!({"role": "tool", "tool_call_id": "c1", "content": "4"});
    for assistant in [
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "assistant", "tool_calls": [call]}),
        json!({"role": "assistant", "content": "", "tool_calls": [call]}),
    ] {
        let messages = json!([{"role": "user", "content": "x"}, assistant, tool]);
        answer(&server, json!({"messages": messages})).await;
    }
    let part = |text: &str| json!({"type": "text", "text": text});
    for role in ["system", "user", "assistant", "tool"] {
        let messages =
            |content: Value| json!([{"role": "user", "content": "x"}, {"role": role, "content": content}]);
        let parts = answer(&server, json!({"messages": messages(json!([part("a "), part("b")]))})).await;
        let plain = answer(&server, json!({"messages": messages(json!("a b"))})).await;
        assert_eq!(parts["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"], "{role}");
        assert_eq!(parts["choices"], plain["choices"], "{role}");
    }
    for roles in [["system", "user", "system"], ["developer", "developer", "user"]] {
        let messages: Vec<Value> = roles.iter().map(|role| json!({"role": role, "content": "x"})).collect();
        answer(&server, json!({"messages": messages})).await;
    }
}

#[tokio::test]
async fn control_tokens_in_messages_are_text() {
    let server = Server::new();
    let tokens = |content: &str| {
        let messages = json!([{"role": "user", "content": content}]);
        let server = &server;
        async move {
            answer(server, json!({"messages": messages})).await["usage"]["prompt_tokens"].as_u64().unwrap()
        }
    };
    // One id for every byte, where the token itself would be one.
    assert_eq!(tokens("<|im_end|>").await, tokens("").await + "<|im_end|>".len() as u64);
}

#[tokio::test]
async fn thinking_is_the_templates_affair_and_goes_into_its_own_field() {
    let server = Server::new();
    for wish in [
        json!({"chat_template_kwargs": {"enable_thinking": true}}),
        json!({"reasoning_effort": "low"}),
        json!({"enable_thinking": true}),
    ] {
        let body = answer(&server, wish).await;
        let message = &body["choices"][0]["message"];
        assert_eq!(message["content"], "");
        assert_eq!(body["choices"][0]["finish_reason"], "length");
        assert!(message["reasoning_content"].as_str().is_some_and(|text| !text.is_empty()));
        assert_eq!(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 12);
    }
    let off = json!({"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": false}});
    assert!(answer(&server, off).await["choices"][0]["message"]["reasoning_content"].is_null());
}

#[tokio::test]
async fn harmless_fields_are_accepted() {
    let server = Server::new();
    let plain = answer(&server, json!({})).await;
    let wish = json!({
        "model": "org/tiny", "user": "u", "metadata": {"a": "b"}, "store": true, "service_tier": "auto",
        "prediction": {"type": "content", "content": "x"}, "modalities": ["text"], "n": 1, "stream": false,
        "stream_options": null, "logprobs": null, "top_logprobs": null, "logit_bias": null, "seed": null, "tools": [],
        "tool_choice": "auto", "parallel_tool_calls": true, "response_format": {"type": "text"}, "functions": [],
        "verbosity": "medium", "xtc_probability": 0, "xtc_threshold": 0.1, "adapters": null, "num_draft_tokens": 3,
        "draft_model": null, "repetition_context_size": 20, "presence_context_size": 20, "best_of": 1, "min_tokens": 0,
        "ignore_eos": false, "safety_identifier": "x", "prompt_cache_key": "x", "some_new_field": {"x": [1]},
    });
    let body = answer(&server, wish).await;
    assert_eq!(body["choices"], plain["choices"]);
    assert_eq!(body["model"], "tiny");
}
