use serde::{Serialize, Serializer, ser::SerializeMap};

/// How much of a prompt was kept, or why none of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// A state of everything but the last id, which is always run.
    Whole,
    /// A state of fewer ids.
    Beginning,
    /// A part of a state, up to where the prompt differs from it.
    Part,
    /// Nothing, as nothing was kept yet.
    Empty,
    /// Nothing: no state has even the first id.
    Unknown,
    /// Nothing: states begin alike, but none reaches back to where they part.
    Diverged,
}

impl Found {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Whole, Self::Beginning, Self::Part, Self::Empty, Self::Unknown, Self::Diverged];

    /// As it is told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Beginning => "beginning",
            Self::Part => "part",
            Self::Empty => "empty",
            Self::Unknown => "unknown",
            Self::Diverged => "diverged",
        }
    }

    /// Whether there was something to go on from.
    pub fn is_hit(self) -> bool {
        matches!(self, Self::Whole | Self::Beginning | Self::Part)
    }
}

/// What came of looking a prompt up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lookup {
    /// What was found.
    pub found: Found,
    /// Whether it came from the slower tier.
    pub from_tier: bool,
}

impl Lookup {
    /// Everything that can come of it.
    pub fn all() -> impl Iterator<Item = Self> {
        let both = |found: Found| [false, true].map(|from_tier| Self { found, from_tier });
        Found::ALL.into_iter().flat_map(both).filter(|lookup| lookup.found.is_hit() || !lookup.from_tier)
    }

    /// Where the state was.
    pub fn place(self) -> &'static str {
        match (self.found.is_hit(), self.from_tier) {
            (false, _) => "none",
            (true, false) => "memory",
            (true, true) => "disk",
        }
    }
}

/// How often what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lookups([[u64; 2]; Found::ALL.len()]);

impl Lookups {
    /// One more.
    pub fn add(&mut self, lookup: Lookup) {
        self.0[lookup.found as usize][usize::from(lookup.from_tier)] += 1;
    }

    /// How often that came of it.
    pub fn of(&self, lookup: Lookup) -> u64 {
        self.0[lookup.found as usize][usize::from(lookup.from_tier)]
    }

    /// How often something was found.
    pub fn hits(&self) -> u64 {
        self.count(|lookup| lookup.found.is_hit())
    }

    /// How often nothing was found.
    pub fn misses(&self) -> u64 {
        self.count(|lookup| !lookup.found.is_hit())
    }

    fn count(&self, counts: impl Fn(&Lookup) -> bool) -> u64 {
        Lookup::all().filter(counts).map(|lookup| self.of(lookup)).sum()
    }
}

impl Serialize for Lookups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for lookup in Lookup::all() {
            let name = match lookup.found.is_hit() {
                true => format!("{}_{}", lookup.place(), lookup.found.name()),
                false => lookup.found.name().to_owned(),
            };
            map.serialize_entry(&name, &self.of(lookup))?;
        }
        map.end()
    }
}
