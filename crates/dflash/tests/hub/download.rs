use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};

use dflash::hub::{HubError, HubId, Role};

use crate::server::{COMMIT, Reply, Repo, Server, content_reply, etag, plain, serve};
use crate::{CONFIG, Machine, REPO, WEIGHTS, files, model};

const INDEX: &[u8] =
    br#"{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#;

fn sharded() -> Repo {
    let files: &[(&str, &[u8])] = &[
        (".gitattributes", b"x"),
        ("README.md", b"readme"),
        ("config.json", CONFIG),
        ("chat_template.jinja", b"t"),
        ("generation_config.json", b"{}"),
        ("merges.txt", b"m"),
        ("model-00001-of-00002.safetensors", b"one"),
        ("model-00002-of-00002.safetensors", b"two"),
        ("model.safetensors.index.json", INDEX),
        ("onnx/model.onnx", b"o"),
        ("original/consolidated.00.pth", b"p"),
        ("pytorch_model.bin", b"b"),
        ("m-Q4_0.gguf", b"g"),
        ("tokenizer.json", b"{ }"),
        ("tokenizer.model", b"s"),
        ("tokenizer_config.json", b"{  }"),
        ("vocab.json", b"v"),
    ];
    Repo::new(REPO, files)
}

#[test]
fn what_is_needed_lands_in_the_shared_layout() {
    let server = serve(vec![sharded()]);
    let machine = Machine::new(&server);
    let path = machine.fetch(REPO).unwrap();
    let dir = machine.repo_dir();
    assert_eq!(path, dir.join("snapshots").join(COMMIT));
    let wanted = [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    assert_eq!(files(&path), wanted);
    assert_eq!(fs::read_to_string(dir.join("refs/main")).unwrap(), COMMIT);
    let link = fs::read_link(path.join("config.json")).unwrap();
    assert_eq!(link, Path::new("../../blobs").join(etag("config.json", CONFIG)));
    assert_eq!(fs::read(path.join("model-00002-of-00002.safetensors")).unwrap(), b"two");
    assert_eq!(files(&dir.join("blobs")).len(), wanted.len(), "no remains");
    let found = machine.hub.settings.cache.find(&HubId::of_repo(REPO)).unwrap().unwrap();
    assert!(found.snapshot.is_complete());
}

#[test]
fn a_draft_is_config_and_weights() {
    let server = serve(vec![model()]);
    let machine = Machine::new(&server);
    let path = machine.hub.fetch(&HubId::of_repo(REPO), Role::Draft, &|_| Ok(())).unwrap();
    assert_eq!(files(&path), ["config.json", "model.safetensors"]);
}

#[test]
fn an_old_tokenizer_is_taken_where_there_is_no_other() {
    let mut repo = sharded();
    repo.files.retain(|(name, _)| *name != "tokenizer.json");
    let machine = Machine::new(&serve(vec![repo]));
    let path = machine.fetch(REPO).unwrap();
    for name in ["vocab.json", "merges.txt", "tokenizer.model"] {
        assert!(path.join(name).exists(), "{name}");
    }
}

#[test]
fn the_second_fetch_asks_for_no_content() {
    let server = serve(vec![model()]);
    let machine = Machine::new(&server);
    machine.fetch(REPO).unwrap();
    let before = server.seen().len();
    machine.fetch(REPO).unwrap();
    assert_eq!(server.seen().len(), before + 1, "the listing");
}

#[test]
fn a_commit_is_a_revision_and_another_one_is_not() {
    let server = serve(vec![model()]);
    let machine = Machine::new(&server);
    machine.fetch(&format!("{REPO}@{COMMIT}")).unwrap();
    assert!(!machine.repo_dir().join("refs").exists());
    assert!(matches!(machine.fetch(&format!("{REPO}@v9")), Err(HubError::NotFound { .. })));
}

#[test]
fn headers_tell_what_the_listing_does_not() {
    let server = serve(vec![Repo { says_contents: false, ..model() }]);
    let machine = Machine::new(&server);
    let path = machine.fetch(REPO).unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), WEIGHTS);
    assert_eq!(server.seen().iter().filter(|request| request.method == "HEAD").count(), 3);
}

#[test]
fn a_cut_connection_is_resumed() {
    // Every connection gives ten bytes: more often than the number of tries in a row.
    let server = Server::start(|request, _| {
        let reply = plain(&[model()], request);
        if request.path.ends_with("model.safetensors") { Reply { cut: Some(10), ..reply } } else { reply }
    });
    let machine = Machine::new(&server);
    let path = machine.fetch(REPO).unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), WEIGHTS);
    let seen = server.seen_of("model.safetensors");
    let ranges: Vec<_> = seen.iter().map(|request| request.header("range")).collect();
    assert_eq!(ranges.len(), WEIGHTS.len().div_ceil(10));
    assert_eq!(ranges[..3], [None, Some("bytes=10-"), Some("bytes=20-")]);
}

#[test]
fn a_cut_listing_is_asked_for_again() {
    let server = Server::start(|request, before| {
        let cut = (request.path.contains("/api/") && before == 0).then_some(20);
        Reply { cut, ..plain(&[model()], request) }
    });
    let machine = Machine::new(&server);
    machine.fetch(REPO).unwrap();
    assert_eq!(server.seen_of("?blobs=true").len(), 2);
}

#[test]
fn what_an_earlier_run_left_is_continued() {
    let server = serve(vec![model()]);
    let machine = Machine::new(&server);
    machine.begun("model.safetensors", WEIGHTS, &WEIGHTS[..20]);
    let path = machine.fetch(REPO).unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), WEIGHTS);
    assert_eq!(server.seen_of("model.safetensors")[0].header("range"), Some("bytes=20-"));
    assert!(!machine.part("model.safetensors", WEIGHTS).exists());
}

#[test]
fn a_whole_part_is_only_checked() {
    let server = serve(vec![model()]);
    let machine = Machine::new(&server);
    machine.begun("model.safetensors", WEIGHTS, WEIGHTS);
    machine.fetch(REPO).unwrap();
    assert!(server.seen_of("model.safetensors").is_empty());
}

#[test]
fn a_server_without_ranges_is_read_from_the_start() {
    let server = Server::start(|request, _| {
        let mut whole = request.clone();
        whole.headers.remove("range");
        plain(&[model()], &whole)
    });
    let machine = Machine::new(&server);
    machine.begun("model.safetensors", WEIGHTS, &WEIGHTS[..20]);
    let path = machine.fetch(REPO).unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), WEIGHTS);
}

#[test]
fn a_damaged_part_is_fetched_once_more() {
    let server = serve(vec![model()]);
    let machine = Machine::new(&server);
    machine.begun("model.safetensors", WEIGHTS, b"something else");
    let path = machine.fetch(REPO).unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), WEIGHTS);
    assert_eq!(server.seen_of("model.safetensors").len(), 2);
}

#[test]
fn only_the_hub_sees_the_token() {
    let cdn = Server::start(|request, _| content_reply(WEIGHTS, request));
    let place = format!("{}/somewhere", cdn.url);
    let server = Server::start(move |request, _| {
        if request.path.ends_with("model.safetensors") {
            return Reply::status(302).with("Location", place.clone());
        }
        plain(&[model()], request)
    });
    let machine = Machine::with(&server, &[("HF_TOKEN", "hf_secret")]);
    let path = machine.fetch(REPO).unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), WEIGHTS);
    assert!(server.seen().iter().all(|request| request.header("authorization") == Some("Bearer hf_secret")));
    assert_eq!(cdn.seen().len(), 1);
    assert_eq!(cdn.seen()[0].header("authorization"), None);
}

#[test]
fn the_hub_speaks_for_a_content_that_lies_elsewhere() {
    let cdn = Server::start(|request, _| content_reply(WEIGHTS, request).with("ETag", "\"of-the-cdn\""));
    let place = format!("{}/somewhere", cdn.url);
    let server = Server::start(move |request, _| {
        if request.path.ends_with("model.safetensors") {
            let reply = Reply::status(302).with("Location", place.clone()).with("ETag", "\"of-a-pointer\"");
            let etag = etag("model.safetensors", WEIGHTS);
            return reply.with("X-Linked-Size", WEIGHTS.len().to_string()).with("X-Linked-Etag", etag);
        }
        plain(&[Repo { says_contents: false, ..model() }], request)
    });
    let machine = Machine::new(&server);
    machine.begun("model.safetensors", WEIGHTS, &WEIGHTS[..20]);
    let path = machine.fetch(REPO).unwrap();
    assert_eq!(fs::read(path.join("model.safetensors")).unwrap(), WEIGHTS);
    assert_eq!(cdn.seen().len(), 1);
    assert_eq!(cdn.seen()[0].header("range"), Some("bytes=20-"));
    assert_eq!(cdn.seen()[0].header("accept-encoding"), Some("identity"));
}

#[test]
fn a_renamed_repository_is_followed_with_the_token() {
    let server = Server::start(|request, _| match request.path.strip_prefix("/old/") {
        Some(rest) => Reply::status(307).with("Location", format!("/{rest}")),
        None => plain(&[model()], request),
    });
    let mut machine = Machine::with(&server, &[("HF_TOKEN", "t")]);
    machine.hub.settings.endpoint = format!("{}/old", server.url);
    machine.fetch(REPO).unwrap();
    assert!(server.seen().iter().all(|request| request.header("authorization") == Some("Bearer t")));
}

#[test]
fn a_busy_server_is_asked_again() {
    let server = Server::start(|request, before| match before {
        0 => Reply::status(429).with("Retry-After", "0"),
        1 => Reply::status(503),
        _ => plain(&[model()], request),
    });
    Machine::new(&server).fetch(REPO).unwrap();
    assert!(server.seen_of("model.safetensors").len() == 3);
}

fn quantised() -> Repo {
    let files: &[(&str, &[u8])] = &[
        ("config.json", CONFIG),
        ("m-Q4_K_M.gguf", b"four"),
        ("m-Q8_0.gguf", b"eight"),
        ("BF16/m-BF16-00001-of-00002.gguf", b"sixteen 1"),
        ("BF16/m-BF16-00002-of-00002.gguf", b"sixteen 2"),
        ("mmproj-F16.gguf", b"image"),
    ];
    Repo::new(REPO, files)
}

#[test]
fn one_gguf_file_is_chosen() {
    let server = serve(vec![quantised()]);
    for choice in ["q4_k_m", "m-Q4_K_M.gguf"] {
        let machine = Machine::new(&server);
        let path = machine.fetch(&format!("{REPO}:{choice}")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"four");
        assert_eq!(files(path.parent().unwrap()), ["m-Q4_K_M.gguf"]);
    }
}

#[test]
fn every_part_of_a_split_gguf_file_is_fetched() {
    let server = serve(vec![quantised()]);
    let machine = Machine::new(&server);
    let path = machine.fetch(&format!("{REPO}:BF16")).unwrap();
    assert!(path.ends_with("BF16/m-BF16-00001-of-00002.gguf"));
    let second = path.with_file_name("m-BF16-00002-of-00002.gguf");
    assert_eq!([fs::read(&path).unwrap(), fs::read(second).unwrap()], [b"sixteen 1", b"sixteen 2"]);
}

#[test]
fn two_at_once_fetch_every_content_once() {
    let server = serve(vec![sharded()]);
    let machine = Machine::new(&server);
    let start = Arc::new(Barrier::new(4));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (start, machine) = (Arc::clone(&start), &machine);
            scope.spawn(move || {
                start.wait();
                machine.fetch(REPO).unwrap();
            });
        }
    });
    for request in server.seen().iter().filter(|request| request.path.contains("/resolve/")) {
        assert_eq!(server.seen_of(&request.path).len(), 1, "{request:?}");
    }
}
