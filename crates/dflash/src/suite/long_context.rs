//! Prompts of any length: entries of an invented gazetteer, and a task at the end.

use super::Prompt;
use super::random::Random;
use super::source::LONG_CONTEXT;

/// Characters that count as a token.
const CHARACTERS: usize = 4;

const BEGINNING: &str = "These are entries of a gazetteer of an invented country, in no order.";

/// What is to be done with the entries; one prompt each.
const TASKS: [&str; 8] = [
    "Write a report on the places above. Begin with what most of them have in common, then describe three of them in detail.",
    "Write a guide for a journey through five of the places above. Say for each of them what there is to see and how one gets there.",
    "Choose the four places above that had the worst misfortunes. Tell for each of them what happened and what became of it.",
    "Make a table in Markdown of the last ten places above, with their names, inhabitants and trades.",
    "Which of the places above would suit a family with two children, and which a retired teacher? Give your reasons and quote the entries.",
    "Repeat the first three entries word for word.",
    "Repeat the last three entries word for word.",
    "Write a short story that takes place in one of the places above and uses what its entry says.",
];

const BEGINS: [&str; 14] =
    ["Al", "Bren", "Cor", "Dun", "Est", "Fal", "Gar", "Hol", "Ker", "Lin", "Mar", "Nor", "Os", "Tor"];
const MIDDLES: [&str; 10] = ["a", "der", "en", "il", "mer", "o", "rin", "sa", "tel", "u"];
const ENDS: [&str; 12] =
    ["bridge", "by", "combe", "dale", "field", "ford", "gate", "haven", "mouth", "stead", "ton", "wick"];
const KINDS: [&str; 8] = [
    "a market town",
    "a fishing village",
    "a mining town",
    "a spa",
    "a harbour town",
    "a mountain village",
    "a university town",
    "a parish of scattered farms",
];
const GROUNDS: [&str; 8] = [
    "on the northern bank of the river",
    "at the end of a narrow bay",
    "below a ruined castle",
    "on the edge of a great moor",
    "between two lakes",
    "at the foot of the pass",
    "on a chalk hill",
    "where the old road crosses the canal",
];
const TRADES: [&str; 12] = [
    "linen",
    "clocks",
    "smoked fish",
    "paper",
    "barrels",
    "apples and cider",
    "roof slates",
    "bicycles",
    "glass",
    "seed potatoes",
    "church bells",
    "woollen blankets",
];
const SIGHTS: [&str; 10] = [
    "a covered bridge with a toll house",
    "a museum of lamps",
    "the longest flight of locks in the country",
    "a library with painted ceilings",
    "a lime tree that is said to be nine hundred years old",
    "a theatre for three hundred people",
    "the observatory on the hill",
    "a garden with medicinal plants",
    "a railway station that is far too large",
    "seven wells, of which five still give water",
];
const MISFORTUNES: [&str; 9] = [
    "a fire destroyed the streets around the market",
    "the river broke its dike and stayed for a month",
    "the mine was closed from one day to the next",
    "a storm took the roof of the church",
    "half of the families left for the coast",
    "the bridge fell under a herd of cattle",
    "the bank lost the savings of the whole parish",
    "an earthquake stopped every clock",
    "the harbour filled with sand",
];
const RECOVERIES: [&str; 8] = [
    "It was rebuilt within five years.",
    "The marks of it can still be seen.",
    "Since then every child has learned to swim.",
    "A song about it is sung to this day.",
    "Nobody was ever blamed for it.",
    "The insurance has been in court over it ever since.",
    "The council put up a stone with a single word on it.",
    "Help came from as far as the capital.",
];
const CUSTOMS: [&str; 9] = [
    "On the first Sunday in May the bakers give away bread.",
    "At Midsummer the boats are washed with milk.",
    "A market for second-hand books fills the square every October.",
    "On winter evenings a horn is blown at nine, and nobody remembers why.",
    "Newcomers are given a spoon of wood by the mayor.",
    "The bells are rung by hand, by women only.",
    "Every tenth year the people play the founding of the town, in the rain if need be.",
    "Dogs are allowed in the town hall.",
    "The school begins an hour later than anywhere else.",
];
const ROADS: [&str; 8] = [
    "A train stops there every two hours.",
    "It is reached by ferry from April to October.",
    "The bus from the capital takes four hours.",
    "There is no road in winter.",
    "One walks from the station for twenty minutes.",
    "A cable car leads up to it.",
    "The post arrives by boat on Tuesdays and Fridays.",
    "The motorway passes it without an exit.",
];

/// Prompts of about `tokens` tokens, their tasks included.
pub(super) fn prompts(tokens: usize) -> Vec<Prompt> {
    let prompt = |(number, task)| {
        let text = text(tokens * CHARACTERS, task, &mut Random::new(number as u64));
        Prompt::plain(format!("{LONG_CONTEXT}-{number}"), LONG_CONTEXT, text)
    };
    TASKS.into_iter().enumerate().map(prompt).collect()
}

/// As many entries as fit into `length` characters, at least one, and the task.
fn text(length: usize, task: &str, random: &mut Random) -> String {
    let mut text = BEGINNING.to_owned();
    for number in 1.. {
        let entry = entry(number, random);
        if number > 1 && text.len() + entry.len() + task.len() + 4 > length {
            break;
        }
        text += "\n\n";
        text += &entry;
    }
    text + "\n\n" + task
}

fn entry(number: usize, random: &mut Random) -> String {
    let name = format!("{}{}{}", random.of(&BEGINS), random.of(&MIDDLES), random.of(&ENDS));
    let (kind, ground) = (random.of(&KINDS), random.of(&GROUNDS));
    let (people, height) = (300 + random.below(60_000), 2 + random.below(1_400));
    let (trade, other, sight) = (random.of(&TRADES), random.of(&TRADES), random.of(&SIGHTS));
    let place = match random.below(3) {
        0 => {
            format!("{name} is {kind} {ground}, {height} metres above the sea. It has {people} inhabitants.")
        }
        1 => {
            format!("{name}, {kind} with {people} inhabitants, lies {ground} at a height of {height} metres.")
        }
        _ => format!("The {people} people of {name}, {kind} {ground}, live {height} metres above the sea."),
    };
    let lives = match random.below(3) {
        0 => format!("It is known for {trade} and has {sight}."),
        1 => format!("Visitors come to see {sight}; most of its people live by {trade}."),
        _ if trade == other => format!("It has always lived by {trade}. There is {sight}."),
        _ => format!("It used to live by {other} and now lives by {trade}. There is {sight}."),
    };
    let past = match random.below(4) {
        0 => random.of(&CUSTOMS).to_owned(),
        _ => {
            let (year, what) = (1480 + random.below(530), random.of(&MISFORTUNES));
            format!("In {year} {what}. {} {}", random.of(&RECOVERIES), random.of(&CUSTOMS))
        }
    };
    format!("{number}. {place} {lives} {past} {}", random.of(&ROADS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_prompt_is_about_as_long_as_asked_for() {
        for tokens in [256, 1000, 8192] {
            for prompt in prompts(tokens) {
                let length = prompt.text.len();
                assert!(length <= tokens * CHARACTERS && length + 600 > tokens * CHARACTERS, "{length}");
            }
        }
    }

    #[test]
    fn entries_differ_and_the_task_comes_last() {
        for (prompt, task) in prompts(8192).into_iter().zip(TASKS) {
            assert!(prompt.text.ends_with(task));
            let parts: Vec<_> = prompt.text.split("\n\n").collect();
            let entries: Vec<_> =
                parts[1..parts.len() - 1].iter().filter_map(|entry| entry.split_once(". ")).collect();
            assert_eq!(entries.len(), parts.len() - 2);
            let entries: Vec<_> = entries.into_iter().map(|(_, entry)| entry).collect();
            assert_eq!(entries.iter().collect::<BTreeSet<_>>().len(), entries.len());
        }
    }

    #[test]
    fn a_longer_prompt_begins_like_a_shorter_one() {
        let entries = |tokens| {
            let text = prompts(tokens).remove(0).text;
            text.rsplit_once("\n\n").map(|(entries, _)| entries.to_owned()).unwrap()
        };
        assert!(entries(4096).starts_with(&entries(512)));
    }
}
