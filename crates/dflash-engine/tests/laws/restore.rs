use crate::common::cases::Case;
use crate::common::model::Model;

#[test]
fn restore_law_a_snapshot_continues_like_the_original() {
    for case in Case::all() {
        let mut model = Model::load(&case);
        let ids = model.prompt(140, 6);
        let truth = model.plain(&ids);
        for at in [0, 1, 2, 63, 64, 65, 100, 128] {
            let mut cache = model.target.new_cache();
            if at > 0 {
                model.prefill(&mut cache, &ids[..at]);
            }
            let snapshot = cache.snapshot();
            // Whatever the original does afterwards stays out of the snapshot.
            let noise = model.prompt(30, 8);
            model.chain(&mut cache, &noise, 7);
            model.chain(&mut cache, &noise, 30);
            cache.restore(&snapshot);
            for mut copy in [cache, snapshot.snapshot(), snapshot] {
                assert_eq!(copy.len(), at);
                let rows = model.chain(&mut copy, &ids[at..], ids.len() - at);
                assert!(rows == truth.rows[at..], "{}: restored at {at}", case.name);
            }
        }
    }
}

/// Two answers to one prompt, which share what the prompt left.
#[test]
fn restore_law_branches_do_not_see_each_other() {
    for case in Case::kinds() {
        let mut model = Model::load(&case);
        let ids = model.prompt(61, 7);
        let common = model.plain(&ids).caches.pop().expect("the last one");
        let answers = [1, 2].map(|seed| model.prompt(20, seed));
        let whole = answers.clone().map(|answer| [&ids[..], &answer].concat());
        let truths = whole.map(|ids| model.plain(&ids).rows[61..].to_vec());
        let mut branches = [common.snapshot(), common];
        for at in (0..20).step_by(4) {
            for ((branch, answer), truth) in branches.iter_mut().zip(&answers).zip(&truths) {
                let drafted = model.drafted(&answer[at..at + 4], 2, 5);
                model.chain(branch, &drafted, 2);
                let rows = model.chain(branch, &answer[at + 2..at + 4], 2);
                assert!(rows == truth[at + 2..at + 4], "{}: at {at}", case.name);
            }
        }
    }
}
