use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::LocalSet;

use crate::args::{Args, Mode};
use crate::http::{Failure, Manner, Reply, answer, metrics};
use crate::spread::Spread;

/// Of a slow reader.
const PAUSE: Duration = Duration::from_millis(40);
/// Before a refused request is sent again.
const WAIT: Duration = Duration::from_millis(200);

/// What happened so far.
#[derive(Default)]
struct Tally {
    answers: usize,
    tokens: usize,
    left: usize,
    busy: usize,
    different: Vec<String>,
    failures: BTreeMap<String, usize>,
    first: Spread,
    gaps: Spread,
    rss_gb: Vec<f64>,
}

/// Sends requests for some time; whether all was well.
pub async fn run(args: &Args) -> Result<bool, String> {
    let Mode::Soak { streams, time, slow, drop, seed } = args.mode else {
        unreachable!("the mode of this file")
    };
    let mut alone = Vec::new();
    for prompt in &args.prompts {
        let reply = answer(args, prompt, true, Manner::default()).await.map_err(told)?;
        alone.push(reply.expect("this reader stays"));
    }
    let tally = Rc::new(RefCell::new(Tally::default()));
    let (began, local) = (Instant::now(), LocalSet::new());
    let end = began + time;
    local
        .run_until(async {
            let streams = (0..streams).map(|stream| {
                let random = Random(seed.wrapping_mul(1000).wrapping_add(stream as u64 + 1));
                let pause = (stream < slow).then_some(PAUSE);
                ask_until(args, &alone, end, pause, drop, random, Rc::clone(&tally))
            });
            futures_util::future::join(futures_util::future::join_all(streams), watch(args, end, &tally))
                .await
        })
        .await;
    let seconds = began.elapsed().as_secs_f64();
    let tally = tally.borrow();
    tally.tell(args, seconds);
    Ok(tally.different.is_empty() && tally.failures.is_empty() && tally.answers > 0)
}

fn told(failure: Failure) -> String {
    match failure {
        Failure::Busy => "the queue is full".to_owned(),
        Failure::Wrong(what) => what,
    }
}

/// One stream: a request after the other.
async fn ask_until(
    args: &Args,
    alone: &[Reply],
    end: Instant,
    pause: Option<Duration>,
    drop: u32,
    mut random: Random,
    tally: Rc<RefCell<Tally>>,
) {
    while Instant::now() < end {
        let which = random.below(alone.len() as u64) as usize;
        let leave = random.below(100) < u64::from(drop);
        let leave_after = leave.then(|| random.below(20) as usize);
        match answer(args, &args.prompts[which], true, Manner { pause, leave_after }).await {
            Ok(None) => tally.borrow_mut().left += 1,
            Ok(Some(reply)) => {
                tally.borrow_mut().take(&args.prompts[which], &alone[which], reply, pause.is_none())
            }
            Err(Failure::Busy) => {
                tally.borrow_mut().busy += 1;
                tokio::time::sleep(WAIT).await;
            }
            Err(Failure::Wrong(what)) => {
                *tally.borrow_mut().failures.entry(what).or_default() += 1;
                tokio::time::sleep(WAIT).await;
            }
        }
    }
}

/// The server's memory, every second.
async fn watch(args: &Args, end: Instant, tally: &RefCell<Tally>) {
    while Instant::now() < end {
        if let Ok(figures) = metrics(args).await
            && let Some(rss) = figures["memory"]["rss_gb"].as_f64()
        {
            tally.borrow_mut().rss_gb.push(rss);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

impl Tally {
    fn take(&mut self, prompt: &str, alone: &Reply, reply: Reply, timed: bool) {
        self.answers += 1;
        self.tokens += reply.tokens;
        if reply.text != alone.text || reply.hash != alone.hash {
            self.different.push(prompt.to_owned());
        }
        if timed {
            self.first.add(reply.first);
            reply.gaps.into_iter().for_each(|gap| self.gaps.add(gap));
        }
    }

    /// Memory after the first quarter, and most of it later.
    fn memory(&self) -> (f64, f64) {
        let settled = self.rss_gb.len() / 4;
        let most = self.rss_gb.iter().skip(settled).copied().fold(0.0, f64::max);
        (self.rss_gb.get(settled).copied().unwrap_or(0.0), most)
    }

    fn tell(&self, args: &Args, seconds: f64) {
        let (settled, most) = self.memory();
        let rate = self.tokens as f64 / seconds;
        if args.json {
            let report = json!({
                "seconds": seconds, "answers": self.answers, "tokens": self.tokens, "tok_s": rate,
                "left": self.left, "busy": self.busy, "different": self.different, "failures": self.failures,
                "ttft_ms": self.first.json(), "between_deliveries_ms": self.gaps.json(),
                "rss_gb": {"settled": settled, "most": most, "every_second": self.rss_gb},
            });
            println!("{report}");
            return;
        }
        println!("{} answers, {} tokens in {seconds:.1} s: {rate:.1} tok/s", self.answers, self.tokens);
        println!("{} readers left, {} requests found the queue full", self.left, self.busy);
        println!("first token: {}", self.first.text());
        println!("between deliveries: {}", self.gaps.text());
        println!(
            "memory of the server: {settled:.3} GB after a quarter of the time, {most:.3} GB at most after that"
        );
        println!("{} answers differ from those given alone", self.different.len());
        self.different.iter().take(5).for_each(|prompt| println!("  {prompt}"));
        self.failures.iter().for_each(|(failure, times)| println!("failed {times} times: {failure}"));
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % end
    }
}
