use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::ModelError;
use crate::json::{Keys, shown};
use crate::toolkits::{refuse_modes, refuse_others};

/// How a module's matrix is quantised: MLX affine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Bits of an element.
    pub bits: u8,
    /// Inputs that share a scale and a bias.
    pub group: u16,
}

/// The `quantization` section of an MLX checkpoint: a plan for all modules and overrides by module path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantization {
    path: PathBuf,
    section: &'static str,
    all: Plan,
    overrides: BTreeMap<String, Override>,
}

/// What the settings say of one module.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Override {
    /// Module path as the config has it.
    key: String,
    /// `None` keeps the module as it is.
    plan: Option<Plan>,
}

const SECTIONS: [&str; 2] = ["quantization", "quantization_config"];

impl Quantization {
    /// The section of a config, which MLX writes twice under two names; `None` for a plain checkpoint.
    /// Configs of models with more than text may have it in `text_config`.
    ///
    /// # Errors
    /// Another toolkit's method, another mode, sections that differ, or values that make no sense.
    pub fn read(config: &Keys<'_>) -> Result<Option<Self>, ModelError> {
        let places = [Some(config.clone()), config.object("text_config")?];
        let mut found: Option<(Self, String, String)> = None;
        for place in places.into_iter().flatten() {
            refuse_compression(&place)?;
            for section in SECTIONS {
                let Some(these) = Self::section(&place, section)? else { continue };
                let said = place.get(section).map(shown).unwrap_or_default();
                let next = (these, place.name(section), said);
                match found {
                    Some((first, key, value)) if !first.agrees(&next.0) => {
                        return Err(config.conflict((key, value), (next.1, next.2)));
                    }
                    Some(_) => {}
                    None => found = Some(next),
                }
            }
        }
        Ok(found.map(|(these, ..)| these))
    }

    fn section(config: &Keys<'_>, section: &'static str) -> Result<Option<Self>, ModelError> {
        let Some(keys) = config.object(section)? else { return Ok(None) };
        refuse_others(&keys)?;
        let all = plan(&keys)?;
        let mut overrides = BTreeMap::new();
        for (module, value) in keys.entries() {
            let plan = match (module.as_str(), value) {
                ("bits" | "group_size" | "mode", _) => continue,
                (_, Value::Bool(true)) => Some(all),
                (_, Value::Bool(false)) => None,
                _ => Some(override_plan(&keys, module)?),
            };
            overrides.insert(module.clone(), Override { key: module.clone(), plan });
        }
        Ok(Some(Self { path: config.path().to_owned(), section, all, overrides }))
    }

    fn agrees(&self, other: &Self) -> bool {
        (self.all, &self.overrides) == (other.all, &other.overrides)
    }

    /// The same settings with the modules under the names that `canonical` gives their tensors.
    ///
    /// # Errors
    /// [`ModelError::Quantization`] for two settings of one module.
    pub fn canonical(mut self, canonical: impl Fn(&str) -> String) -> Result<Self, ModelError> {
        for (module, setting) in std::mem::take(&mut self.overrides) {
            let name = canonical(&format!("{module}.weight"));
            let name = name.strip_suffix(".weight").unwrap_or(&name).to_owned();
            if let Some(other) = self.overrides.insert(name, setting) {
                return Err(self.error(&module, &format!("it means the same module as `{}`", other.key)));
            }
        }
        Ok(self)
    }

    /// The plan of a module whose file holds `<module>.scales`.
    ///
    /// # Errors
    /// When the config keeps the module as it is.
    pub fn plan(&self, module: &str) -> Result<Plan, ModelError> {
        match self.overrides.get(module) {
            None => Ok(self.all),
            Some(Override { plan: Some(plan), .. }) => Ok(*plan),
            Some(Override { key, plan: None }) => {
                Err(self.error(key, "the config says false, but the file holds scales for it"))
            }
        }
    }

    /// Checks that every override names a module of the checkpoint, and a quantised one unless it is `false`.
    ///
    /// # Errors
    /// [`ModelError::Quantization`] with the first override that matches nothing.
    pub fn check_overrides(&self, contains: impl Fn(&str) -> bool) -> Result<(), ModelError> {
        for (module, Override { key, plan }) in &self.overrides {
            if !contains(&format!("{module}.weight")) && !contains(module) {
                return Err(self.error(key, "the override matches no module of this checkpoint"));
            }
            if plan.is_some() && !contains(&format!("{module}.scales")) {
                return Err(self.error(key, "the override quantizes it, but the file holds no scales for it"));
            }
        }
        Ok(())
    }

    fn error(&self, module: &str, what: &str) -> ModelError {
        let what = format!("{what} (section `{}`)", self.section);
        ModelError::Quantization { path: self.path.clone(), module: module.into(), what }
    }
}

/// The section of older compressed-tensors files.
fn refuse_compression(config: &Keys<'_>) -> Result<(), ModelError> {
    let key = "compression_config";
    match config.get(key) {
        None => Ok(()),
        Some(_) => Err(config.refused(
            key,
            "compressed-tensors packing is not read; take the unquantised, MLX or GGUF release",
        )),
    }
}

fn override_plan(keys: &Keys<'_>, module: &str) -> Result<Plan, ModelError> {
    let keys = keys.object(module)?.ok_or_else(|| keys.bad(module, "true, false or an object"))?;
    refuse_modes(&keys)?;
    plan(&keys)
}

fn plan(keys: &Keys<'_>) -> Result<Plan, ModelError> {
    let bits = keys.required_size("bits")?;
    let group = keys.required_size("group_size")?;
    if ![2, 3, 4, 5, 6, 8].contains(&bits) {
        return Err(keys.refused("bits", "2, 3, 4, 5, 6 and 8 are read"));
    }
    if ![32, 64, 128].contains(&group) {
        return Err(keys.refused("group_size", "32, 64 and 128 are read"));
    }
    Ok(Plan { bits: bits as u8, group: group as u16 })
}
