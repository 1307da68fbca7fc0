use std::fs;
use std::net::TcpListener;

use dflash::hub::{HubError, HubId, Role};
use dflash::report::{Failure, FailureKind};

use crate::server::{Reply, Repo, Server, plain, serve};
use crate::{CONFIG, Machine, REPO, WEIGHTS, files, model};

/// What the user is told when the server gives only this.
fn said_of(reply: Reply, more: &[(&str, &str)]) -> String {
    let server = Server::start(move |_, _| reply.clone());
    Machine::with(&server, more).said(REPO, &server)
}

#[test]
fn every_refusal_has_its_own_words() {
    let token = [("HF_TOKEN", "t")];
    let gated = Reply::status(403).with("X-Error-Code", "GatedRepo");
    let gated = gated.with("X-Error-Message", "Access to model org/Model-1B is restricted");
    let cases = [
        ("401 without a token", said_of(Reply::status(401), &[])),
        ("401 with a token", said_of(Reply::status(401), &token)),
        ("403 gated", said_of(gated, &token)),
        ("401 gated", said_of(Reply::status(401).with("X-Error-Code", "GatedRepo"), &[])),
        ("404 repository", said_of(Reply::status(404).with("X-Error-Code", "RepoNotFound"), &[])),
        ("429 for an hour", said_of(Reply::status(429).with("Retry-After", "3600"), &[])),
        ("503", said_of(Reply::status(503), &[])),
        ("418", said_of(Reply::status(418), &[])),
        ("no JSON", said_of(Reply { status: 200, body: b"<html>".to_vec(), ..Reply::default() }, &[])),
        ("redirect to nowhere", said_of(Reply::status(302), &[])),
        ("redirect in a circle", said_of(Reply::status(302).with("Location", "/x"), &[])),
    ];
    let text: Vec<_> = cases.iter().map(|(name, said)| format!("> {name}\n{said}\n")).collect();
    insta::assert_snapshot!("refusals", text.concat());
}

#[test]
fn what_a_repository_lacks_is_named() {
    let server = serve(vec![
        Repo::new("org/nothing", &[("config.json", CONFIG), ("pytorch_model.bin", b"x")]),
        Repo::new(
            "org/several",
            &[("m-Q4_K_M.gguf", b"x"), ("m-Q8_0.gguf", b"y"), ("mmproj-F16.gguf", b"z")],
        ),
        Repo::new(
            "org/shards",
            &[
                ("config.json", CONFIG),
                (
                    "model.safetensors.index.json",
                    br#"{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}"#,
                ),
                ("model-1.safetensors", b"x"),
            ],
        ),
        Repo::new("org/parts", &[("m-Q8_0-00001-of-00002.gguf", b"x")]),
        Repo::new("org/no-config", &[("model.safetensors", b"x")]),
        Repo::new("org/no-index", &[("config.json", CONFIG), ("model.safetensors.index.json", b"[]")]),
    ]);
    let machine = Machine::new(&server);
    let ids = [
        "org/nothing",
        "org/nothing@v2",
        "org/several",
        "org/several@main:Q5_0",
        "org/shards",
        "org/parts",
        "org/no-config",
        "org/no-index",
    ];
    let text: Vec<_> = ids.iter().map(|id| format!("> {id}\n{}\n", machine.said(id, &server))).collect();
    insta::assert_snapshot!("lacking", text.concat());
    assert!(server.seen_of("model-1.safetensors").is_empty(), "nothing is fetched of an incomplete model");
}

#[test]
fn a_wrong_content_is_fetched_twice_and_refused() {
    for wrong in [WEIGHTS.to_ascii_uppercase(), [WEIGHTS, b"!"].concat()] {
        let server = Server::start(move |request, _| {
            let reply = plain(&[model()], request);
            if request.path.ends_with(".safetensors") {
                Reply { body: wrong.clone(), ..reply }
            } else {
                reply
            }
        });
        let machine = Machine::new(&server);
        let error = machine.fetch(REPO).unwrap_err();
        assert!(matches!(&error, HubError::WrongHash { file, .. } if file == "model.safetensors"), "{error}");
        assert_eq!(server.seen_of(".safetensors").len(), 2);
        let blobs = files(&machine.repo_dir().join("blobs"));
        assert_eq!(blobs.len(), 2, "config and tokenizer: {blobs:?}");
        assert!(!machine.repo_dir().join("refs").exists());
    }
}

#[test]
fn a_connection_that_never_gets_further_is_given_up() {
    let server = Server::start(|request, _| {
        let cut = request.path.ends_with(".safetensors").then_some(0);
        Reply { cut, ..plain(&[model()], request) }
    });
    let machine = Machine::new(&server);
    machine.begun("model.safetensors", WEIGHTS, &WEIGHTS[..7]);
    let error = machine.fetch(REPO).unwrap_err();
    assert!(matches!(error, HubError::CutShort { got: 7, .. }), "{error}");
    assert_eq!(server.seen_of(".safetensors").len(), 5);
    assert_eq!(fs::read(machine.part("model.safetensors", WEIGHTS)).unwrap(), &WEIGHTS[..7]);
}

#[test]
fn nobody_there_is_said_at_once() {
    let server = serve(vec![]);
    let mut machine = Machine::new(&server);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    machine.hub.settings.endpoint = format!("http://{closed}");
    machine.hub.settings.patience.first_pause = std::time::Duration::from_secs(3600);
    assert!(matches!(machine.fetch(REPO), Err(HubError::Unreachable { tls: false, .. })));
}

#[test]
fn offline_asks_nobody_and_makes_nothing() {
    let server = serve(vec![model()]);
    let mut machine = Machine::new(&server);
    machine.hub.settings.offline = true;
    let failure = machine.fetch(REPO).unwrap_err().into_failure(&HubId::of_repo(REPO), &server.url);
    assert_eq!(failure.kind(), FailureKind::NotFetched);
    assert!(failure.to_string().contains("hub/models--org--Model-1B"), "{failure}");
    assert_eq!(server.seen(), []);
    assert_eq!(files(machine.dir.path()), Vec::<String>::new());
}

#[test]
fn the_config_decides_before_the_weights_come() {
    let server = serve(vec![model()]);
    let machine = Machine::new(&server);
    let refuse = |config: &std::path::Path| {
        assert_eq!(fs::read(config).unwrap(), CONFIG);
        Err(Failure::new("not this one"))
    };
    let error = machine.hub.fetch(&HubId::of_repo(REPO), Role::Target, &refuse).unwrap_err();
    assert_eq!(error.into_failure(&HubId::of_repo(REPO), "").to_string(), "error: not this one");
    assert!(server.seen_of(".safetensors").is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_asks_for_room() {
    let server = serve(vec![model()]);
    let machine = Machine::new(&server);
    let part = machine.part("model.safetensors", WEIGHTS);
    fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/dev/full", part).unwrap();
    let said = machine.said(REPO, &server);
    assert!(said.contains("no space left on the disk of [DIR]"), "{said}");
    assert!(said.contains("hint: free at least 61 B, or set HF_HUB_CACHE"), "{said}");
}

#[test]
fn a_cache_that_cannot_be_made_is_named() {
    let server = serve(vec![model()]);
    let mut machine = Machine::new(&server);
    let file = machine.dir.path().join("file");
    fs::write(&file, "").unwrap();
    machine.hub.settings.cache = dflash::hub::HubCache::new(file);
    let said = machine.said(REPO, &server);
    assert!(said.contains("hint: set HF_HUB_CACHE to a directory that can be written"), "{said}");
}
