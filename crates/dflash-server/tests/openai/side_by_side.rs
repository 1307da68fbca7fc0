use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::common::{Server, Setup};
use crate::{Said, chat};

/// Of all sorts: greedy and drawn, short and long, constrained, drafted and not.
fn wishes() -> Vec<Value> {
    let user = |text: String| json!([{"role": "user", "content": text}]);
    (0..16)
        .map(|index| {
            let mut wish = json!({"max_tokens": 20 + 3 * index, "messages": user(format!("{index} ").repeat(1 + 9 * index))});
            match index % 4 {
                0 => {}
                1 => wish["temperature"] = json!(1),
                2 => wish["response_format"] = json!({"type": "regex", "pattern": "[a-d ]{30}"}),
                _ => wish["dflash"] = json!({"speculative": false}),
            }
            wish["seed"] = json!(index);
            wish["logprobs"] = json!(true);
            wish
        })
        .collect()
}

/// The choice and the hash of the ids.
async fn answer(server: &Server, wish: &Value, stream: bool) -> (Said, Value) {
    let mut body = chat(wish.clone());
    body["stream"] = json!(stream);
    let answer = server.post("/v1/chat/completions", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    match stream {
        true => {
            let chunks = answer.chunks();
            let hash = chunks.last().unwrap()["dflash"]["ids_sha256"].clone();
            (Said::of(&chunks, 0), hash)
        }
        false => {
            let body = answer.json();
            (Said::of_choice(&body["choices"][0]), body["dflash"]["ids_sha256"].clone())
        }
    }
}

#[tokio::test]
async fn an_answer_among_others_is_the_answer_alone() {
    let server = Setup { drafts: true, ..Setup::default() }.open();
    let wishes = wishes();
    let mut alone = Vec::new();
    for wish in &wishes {
        alone.push(answer(&server, wish, false).await);
    }
    // As many as there is room for, and eight more in the queue; in the other order than before.
    for group in [0..12, 4..16] {
        let together = wishes[group.clone()].iter().enumerate().rev();
        let together = together.map(|(index, wish)| answer(&server, wish, index % 2 == 0));
        let mut together = join_all(together).await;
        together.reverse();
        assert_eq!(together, alone[group]);
    }
}
