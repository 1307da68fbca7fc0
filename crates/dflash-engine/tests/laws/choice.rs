use dflash_tensor::argmax;

use crate::common::cases::Case;
use crate::common::model::Model;

#[test]
fn the_fused_choice_is_the_argmax_of_the_stored_row() {
    for case in Case::all() {
        let mut model = Model::load(&case);
        let (ids, vocab) = (model.prompt(33, 3), model.target.spec().vocab);
        let mut cache = model.target.new_cache();
        let rows = model.chain(&mut cache, &ids, 33);
        let mut choices = Vec::new();
        model.target.choose(&model.workspace, &(0..33).collect::<Vec<_>>(), &mut choices).unwrap();
        for (row, choice) in rows.iter().zip(&choices) {
            let logits: Vec<f32> = row[..vocab].iter().map(|&bits| f32::from_bits(bits)).collect();
            assert_eq!(argmax(&logits), Ok(choice.id as usize), "{}", case.name);
            assert_eq!(logits[choice.id as usize].to_bits(), choice.logit.to_bits(), "{}", case.name);
            let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
            assert!((f64::from(choice.logsumexp) - sum.ln()).abs() < 1e-5, "{}", case.name);
        }
    }
}
