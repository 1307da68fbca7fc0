use std::collections::BTreeSet;

use crate::common::cases::Case;
use crate::common::target;

fn families(cases: &[Case]) -> BTreeSet<&'static str> {
    cases.iter().map(|case| target(&case.path).spec().family).collect()
}

#[test]
fn every_family_stands_under_the_laws() {
    // A family is also loaded under the names of its text part alone.
    let names = dflash_models::supported_model_types().filter(|name| !name.ends_with("_text"));
    let names = names.collect::<BTreeSet<_>>();
    assert_eq!(families(&Case::kinds()), names);
    assert_eq!(families(&Case::all()), names);
}
