use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use dflash_engine::Sampling;
use dflash_engine::sampling::Field;
use serde_json::Value;

use crate::ApiError;
use crate::body::Fields;

/// How ids are chosen: what the request says, else what the server does. A request without a seed gets one by lot, so
/// that it can be told.
///
/// # Errors
/// The first field that is no number or out of range.
pub fn sampling(fields: &Fields<'_>, server: &Sampling) -> Result<Sampling, ApiError> {
    let number = |field: Field, default: f64| {
        let given = fields.number_that(field.name(), field.valid(), |number| field.accepts(number))?;
        Ok::<_, ApiError>(given.unwrap_or(default))
    };
    let sampling = Sampling {
        temperature: number(Field::Temperature, server.temperature)?,
        top_k: top_k(fields)?.unwrap_or(server.top_k),
        top_p: number(Field::TopP, server.top_p)?,
        min_p: number(Field::MinP, server.min_p)?,
        repetition_penalty: repetition_penalty(fields)?.unwrap_or(server.repetition_penalty),
        presence_penalty: number(Field::PresencePenalty, server.presence_penalty)?,
        frequency_penalty: number(Field::FrequencyPenalty, server.frequency_penalty)?,
        logit_bias: logit_bias(fields)?.unwrap_or_else(|| server.logit_bias.clone()),
        seed: seed(fields)?.unwrap_or_else(any_seed),
    };
    refuse_windows(fields, &sampling)?;
    Ok(sampling)
}

/// Others write -1 for all.
fn top_k(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    if fields.value("top_k").and_then(Value::as_i64) == Some(-1) {
        return Ok(Some(0));
    }
    Ok(fields.whole("top_k", 0..=u64::from(u32::MAX))?.map(|k| k as usize))
}

/// Others write 0 for none.
fn repetition_penalty(fields: &Fields<'_>) -> Result<Option<f64>, ApiError> {
    let field = Field::RepetitionPenalty;
    let given = fields.number_that(field.name(), field.valid(), |x| x == 0.0 || field.accepts(x))?;
    Ok(given.map(|x| if x == 0.0 { 1.0 } else { x }))
}

/// Any whole number of 64 bits names a text, negative ones too.
fn seed(fields: &Fields<'_>) -> Result<Option<u64>, ApiError> {
    let Some(value) = fields.value("seed") else { return Ok(None) };
    match value.as_i64() {
        Some(number) => Ok(Some(number as u64)),
        None => fields.whole("seed", 0..=u64::MAX),
    }
}

/// Short enough to be typed again.
fn any_seed() -> u64 {
    RandomState::new().hash_one(0) & u64::from(u32::MAX)
}

/// `{"id": bias}`; JSON has no other keys than strings.
fn logit_bias(fields: &Fields<'_>) -> Result<Option<BTreeMap<u32, f64>>, ApiError> {
    let Some(biases) = fields.object("logit_bias")? else { return Ok(None) };
    let mut read = BTreeMap::new();
    for name in biases.names() {
        let id = name.parse().map_err(|_| {
            let message = format!("logit_bias has the key {name:?}: its keys are token ids, as in \"42\"");
            ApiError::invalid("logit_bias", message)
        })?;
        let field = Field::LogitBias;
        let bias = biases.number_that(name, field.valid(), |bias| field.accepts(bias))?.unwrap_or(0.0);
        if read.insert(id, bias).is_some() {
            let message = format!("logit_bias names token {id} twice: give each token one bias");
            return Err(ApiError::invalid("logit_bias", message));
        }
    }
    Ok(Some(read))
}

/// Some servers let penalties look back a while only; here they see the whole text.
fn refuse_windows(fields: &Fields<'_>, sampling: &Sampling) -> Result<(), ApiError> {
    let windows = [
        ("repetition_context_size", "repetition_penalty", sampling.repetition_penalty != 1.0),
        ("presence_context_size", "presence_penalty", sampling.presence_penalty != 0.0),
        ("frequency_context_size", "frequency_penalty", sampling.frequency_penalty != 0.0),
    ];
    for (window, penalty, in_use) in windows {
        if fields.whole(window, 0..=u64::MAX)?.is_some() && in_use {
            let why = format!("{penalty} looks at the whole text; leave {window} out");
            return Err(fields.refused(window, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Result<Sampling, ApiError> {
        let server = Sampling { temperature: 0.7, top_k: 5, ..Sampling::default() };
        sampling(&Fields::at("", &value).unwrap(), &server)
    }

    #[test]
    fn what_the_request_says_wins() {
        let own =
            read(json!({"temperature": 0, "top_p": 0.5, "seed": -1, "logit_bias": {"7": 1, "3": -2.5}}));
        let own = own.unwrap();
        assert_eq!((own.temperature, own.top_k, own.top_p, own.seed), (0.0, 5, 0.5, u64::MAX));
        assert_eq!(own.logit_bias.into_iter().collect::<Vec<_>>(), [(3, -2.5), (7, 1.0)]);
        let servers = read(json!({"temperature": null})).unwrap();
        assert_eq!((servers.temperature, servers.top_k), (0.7, 5));
    }

    #[test]
    fn wrong_values_name_their_field() {
        for (name, values) in [
            ("temperature", json!([-0.1, 100.1, "1", [], 1e300])),
            ("top_p", json!([0, 1.01, "x"])),
            ("top_k", json!([-2, 1.5, "4", 1e10])),
            ("min_p", json!([-1, 2])),
            ("repetition_penalty", json!([0.001, -1, 1e30, "1"])),
            ("presence_penalty", json!([2.1, "0"])),
            ("frequency_penalty", json!([-2.1, {}])),
            ("seed", json!([1.5, "7", 1e30])),
            ("logit_bias", json!([3, {"x": 1}, {"-1": 1}, {"4294967296": 1}, {"1": 1, "01": 2}])),
            ("repetition_context_size", json!([-1, "20"])),
        ] {
            for value in values.as_array().unwrap() {
                let error = read(json!({name: value})).unwrap_err();
                assert_eq!(error.param.as_deref(), Some(name), "{value}");
            }
        }
        let error = read(json!({"logit_bias": {"1": 101}})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("logit_bias.1"));
    }

    #[test]
    fn windows_of_penalties_matter_only_beside_a_penalty() {
        let off = read(json!({"top_k": -1, "repetition_penalty": 0})).unwrap();
        assert_eq!((off.top_k, off.repetition_penalty), (0, 1.0), "as others write it");
        assert!(read(json!({"repetition_context_size": 20})).is_ok());
        let error = read(json!({"repetition_context_size": 20, "repetition_penalty": 1.1})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("repetition_context_size"));
    }
}
