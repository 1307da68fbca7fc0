use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::ModelError;
use crate::json::{Keys, shown};

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
    /// `None` keeps the module as it is.
    overrides: BTreeMap<String, Option<Plan>>,
}

const SECTIONS: [&str; 2] = ["quantization", "quantization_config"];

impl Quantization {
    /// The section of a config, which MLX writes twice under two names; `None` for a plain checkpoint.
    ///
    /// # Errors
    /// Another toolkit's method, another mode, sections that differ, or values that make no sense.
    pub fn read(config: &Keys<'_>) -> Result<Option<Self>, ModelError> {
        let [first, second] = SECTIONS;
        match (Self::section(config, first)?, Self::section(config, second)?) {
            (Some(a), Some(b)) if (a.all, &a.overrides) != (b.all, &b.overrides) => {
                let said = |key: &str| (config.name(key), config.get(key).map(shown).unwrap_or_default());
                Err(config.conflict(said(first), said(second)))
            }
            (Some(found), _) | (None, Some(found)) => Ok(Some(found)),
            (None, None) => Ok(None),
        }
    }

    fn section(config: &Keys<'_>, section: &'static str) -> Result<Option<Self>, ModelError> {
        let Some(keys) = config.object(section)? else { return Ok(None) };
        if keys.get("quant_method").is_some() {
            return Err(keys.refused("quant_method", "only MLX affine quantization is read"));
        }
        if keys.text("mode")?.is_some_and(|mode| mode != "affine") {
            return Err(keys.refused("mode", "only affine is read"));
        }
        let all = plan(&keys)?;
        let mut overrides = BTreeMap::new();
        for (module, value) in keys.entries() {
            match (module.as_str(), value) {
                ("bits" | "group_size" | "mode", _) => {}
                (_, Value::Bool(true)) => drop(overrides.insert(module.clone(), Some(all))),
                (_, Value::Bool(false)) => drop(overrides.insert(module.clone(), None)),
                _ => drop(overrides.insert(module.clone(), Some(override_plan(&keys, module)?))),
            }
        }
        Ok(Some(Self { path: config.path().to_owned(), section, all, overrides }))
    }

    /// The plan of a module whose file holds `<module>.scales`.
    ///
    /// # Errors
    /// When the config keeps the module as it is.
    pub fn plan(&self, module: &str) -> Result<Plan, ModelError> {
        match self.overrides.get(module) {
            None => Ok(self.all),
            Some(Some(plan)) => Ok(*plan),
            Some(None) => Err(self.error(module, "the config says false, but the file holds scales for it")),
        }
    }

    /// Checks that every override names a module of the checkpoint, and a quantised one unless it is `false`.
    ///
    /// # Errors
    /// [`ModelError::Quantization`] with the first override that matches nothing.
    pub fn check_overrides(&self, contains: impl Fn(&str) -> bool) -> Result<(), ModelError> {
        for (module, plan) in &self.overrides {
            if !contains(&format!("{module}.weight")) {
                return Err(self.error(module, "the override matches no module of this checkpoint"));
            }
            if plan.is_some() && !contains(&format!("{module}.scales")) {
                return Err(
                    self.error(module, "the override quantizes it, but the file holds no scales for it")
                );
            }
        }
        Ok(())
    }

    fn error(&self, module: &str, what: &str) -> ModelError {
        let what = format!("{what} (section `{}`)", self.section);
        ModelError::Quantization { path: self.path.clone(), module: module.into(), what }
    }
}

fn override_plan(keys: &Keys<'_>, module: &str) -> Result<Plan, ModelError> {
    let keys = keys.object(module)?.ok_or_else(|| keys.bad(module, "true, false or an object"))?;
    if keys.text("mode")?.is_some_and(|mode| mode != "affine") {
        return Err(keys.refused("mode", "only affine is read"));
    }
    plan(&keys)
}

fn plan(keys: &Keys<'_>) -> Result<Plan, ModelError> {
    let bits = keys.required_size("bits")?;
    let group = keys.required_size("group_size")?;
    if ![4, 8].contains(&bits) {
        return Err(keys.refused("bits", "4 and 8 are read"));
    }
    if ![32, 64, 128].contains(&group) {
        return Err(keys.refused("group_size", "32, 64 and 128 are read"));
    }
    Ok(Plan { bits: bits as u8, group: group as u16 })
}
