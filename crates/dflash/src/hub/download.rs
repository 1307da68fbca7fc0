//! The files of a repository that are needed, and no others.

use std::fs;
use std::path::{Path, PathBuf};

use ureq::http::HeaderMap;
use ureq::http::header::{CONTENT_LENGTH, ETAG};

use super::blob::Blob;
use super::client::{Client, escaped};
use super::gguf::{self, GgufModel};
use super::listing::{Content, Listing, RepoFile};
use super::snapshot::{INDEX, indexed_shards, is_weight_file};
use super::{Hub, HubError, HubId, Role};
use crate::cache::human_bytes;
use crate::report::Outcome;

/// A repository that is being fetched.
pub(super) struct Download<'a> {
    hub: &'a Hub,
    id: &'a HubId,
    client: Client<'a>,
    listing: Listing,
    /// The repository's folder in the cache.
    dir: PathBuf,
    locks: PathBuf,
    snapshot: PathBuf,
}

/// Beside the weights; small, and fetched first, so that weights that are here mean that all is here.
const TARGET_FILES: [&str; 6] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
];
/// What stands in for an absent `tokenizer.json`.
const OLD_TOKENIZER_FILES: [&str; 3] = ["vocab.json", "merges.txt", "tokenizer.model"];
const CONFIG: &str = "config.json";

impl<'a> Download<'a> {
    /// Asks the Hub what there is.
    pub(super) fn begin(hub: &'a Hub, id: &'a HubId) -> Result<Self, HubError> {
        let (settings, cache) = (&hub.settings, &hub.settings.cache);
        let (root, dir) = cache.root().zip(cache.repo_dir(id)).ok_or(HubError::NoCacheDir)?;
        let client = Client::new(settings, hub.progress);
        let revision = escaped(id.revision(), "");
        let (endpoint, kind) = (&settings.endpoint, id.kind.plural());
        let url = format!("{endpoint}/api/{kind}/{}/revision/{revision}?blobs=true", id.repo);
        let listing = Listing::read(&client.document(&url)?, &url)?;
        let folder = dir.file_name().unwrap_or_default();
        let (locks, snapshot) =
            (root.join(".locks").join(folder), dir.join("snapshots").join(&listing.commit));
        Ok(Self { hub, id, client, listing, dir, locks, snapshot })
    }

    /// Fetches what is needed and not here yet; the path that a loader opens. `accept` looks at the config
    /// before anything large is fetched.
    pub(super) fn run(&self, role: Role, accept: &dyn Fn(&Path) -> Outcome<()>) -> Result<PathBuf, HubError> {
        let path = match self.gguf()? {
            Some(model) => {
                let parts = model.parts();
                self.bring(&parts)?;
                self.snapshot.join(&parts[0])
            }
            None => {
                self.directory(role, accept)?;
                self.snapshot.clone()
            }
        };
        self.write_ref()?;
        Ok(path)
    }

    /// Fetches one file, unless it is here.
    pub(super) fn file(&self, name: &str) -> Result<PathBuf, HubError> {
        self.bring(&[name.to_owned()])?;
        self.write_ref()?;
        Ok(self.snapshot.join(name))
    }

    /// The GGUF model that is wanted; `None` where it is weights in safetensors.
    fn gguf(&self) -> Result<Option<GgufModel>, HubError> {
        let has_safetensors = self.listing.names().any(|name| name == INDEX || is_weight_file(name));
        match &self.id.file {
            None if has_safetensors => Ok(None),
            choice => gguf::choose(gguf::models(self.listing.names()), choice.as_deref()).map(Some),
        }
    }

    fn directory(&self, role: Role, accept: &dyn Fn(&Path) -> Outcome<()>) -> Result<(), HubError> {
        self.bring(&[CONFIG.to_owned()])?;
        accept(&self.snapshot.join(CONFIG)).map_err(|failure| HubError::Refused(Box::new(failure)))?;
        if role == Role::Target {
            self.bring(&self.text_files())?;
        }
        self.bring(&self.shards()?)
    }

    fn text_files(&self) -> Vec<String> {
        let old = if self.listing.file("tokenizer.json").is_some() { &[][..] } else { &OLD_TOKENIZER_FILES };
        let wanted = TARGET_FILES.iter().chain(old);
        wanted.filter(|name| self.listing.file(name).is_some()).map(|&name| name.to_owned()).collect()
    }

    /// The shards that the index names, else every file that a loader takes for one.
    fn shards(&self) -> Result<Vec<String>, HubError> {
        if self.listing.file(INDEX).is_none() {
            let all = self.listing.names().filter(|name| is_weight_file(name));
            return Ok(all.map(str::to_owned).collect());
        }
        self.bring(&[INDEX.to_owned()])?;
        let unusable =
            || HubError::BadAnswer { url: self.url(INDEX), why: "it is no index of shards".into() };
        let shards = indexed_shards(&self.snapshot.join(INDEX)).ok_or_else(unusable)?;
        Ok(shards.into_iter().collect())
    }

    /// Fetches `names`, each unless it is here.
    fn bring(&self, names: &[String]) -> Result<(), HubError> {
        let absent = names.iter().filter(|name| self.listing.file(name).is_none());
        let files: Vec<String> = absent.cloned().collect();
        if !files.is_empty() {
            return Err(HubError::MissingShard { files });
        }
        let files = names.iter().filter_map(|name| self.listing.file(name));
        let files = files.map(|file| Ok((file, self.content(file)?))).collect::<Result<Vec<_>, _>>()?;
        self.say_what_comes(&files);
        for (number, (file, content)) in files.iter().enumerate() {
            let count =
                if files.len() > 1 { format!(", {} of {}", number + 1, files.len()) } else { String::new() };
            self.bring_one(
                &file.name,
                content,
                format!("fetching {} from {}{count}", file.name, self.id.repo),
            )?;
        }
        Ok(())
    }

    /// How much it is, where it is enough to wonder.
    fn say_what_comes(&self, files: &[(&RepoFile, Content)]) {
        let size = |files: &mut dyn Iterator<Item = &Content>| files.map(|content| content.size).sum::<u64>();
        let total = size(&mut files.iter().map(|(_, content)| content));
        let here = size(&mut files.iter().map(|(_, c)| c).filter(|content| self.blob(content).exists()));
        if files.len() > 1 && here < total {
            let (count, repo) = (files.len(), &self.id.repo);
            let (total, here) = (human_bytes(total), human_bytes(here));
            self.hub.progress.note(&format!("{repo}: {count} files, {total}, of which {here} are here"));
        }
    }

    fn bring_one(&self, name: &str, content: &Content, label: String) -> Result<(), HubError> {
        let progress = self.hub.progress;
        let blob = Blob { client: &self.client, progress, name, label, content, url: self.url(name) };
        let lock = self.locks.join(format!("{}.lock", content.etag));
        blob.bring(&self.blob(content), &lock, &self.snapshot.join(name))
    }

    fn blob(&self, content: &Content) -> PathBuf {
        self.dir.join("blobs").join(&content.etag)
    }

    /// By commit: a branch may move while its files are fetched.
    fn url(&self, name: &str) -> String {
        let page = self.id.page(&self.hub.settings.endpoint);
        format!("{page}/resolve/{}/{}", self.listing.commit, escaped(name, "/"))
    }

    /// Size and hash of a file: of the listing, else of the file's own headers.
    fn content(&self, file: &RepoFile) -> Result<Content, HubError> {
        if let Some(content) = &file.content {
            return Ok(content.clone());
        }
        let url = self.url(&file.name);
        let answer = self.client.head(&url)?;
        let why = "it names neither size nor hash of the file".to_owned();
        content_of(answer.headers()).ok_or(HubError::BadAnswer { url, why })
    }

    /// Last of all: from now on the revision's name stands for a whole snapshot.
    fn write_ref(&self) -> Result<(), HubError> {
        if self.id.revision() == self.listing.commit {
            return Ok(());
        }
        let path = self.dir.join("refs").join(self.id.revision());
        let dir = path.parent().unwrap_or(&path);
        fs::create_dir_all(dir).map_err(HubError::io("create", dir))?;
        fs::write(&path, &self.listing.commit).map_err(HubError::io("write", &path))
    }
}

/// Of a content that lies elsewhere the Hub says size and hash in headers of their own.
fn content_of(headers: &HeaderMap) -> Option<Content> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let size = text("x-linked-size").or(text(CONTENT_LENGTH.as_str()))?.parse().ok()?;
    Content::new(size, text("x-linked-etag").or(text(ETAG.as_str()))?)
}
