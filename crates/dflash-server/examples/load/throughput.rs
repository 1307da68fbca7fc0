use std::time::Instant;

use futures_util::future::try_join_all;
use serde_json::json;

use crate::args::{Args, Mode};
use crate::http::{Failure, Manner, answer};
use crate::spread::median;

/// Ids per second of every round.
struct Row {
    streams: usize,
    plain: Vec<f64>,
    drafted: Vec<f64>,
    identical: bool,
}

/// So many streams at once, with drafting and without in turn; whether the answers are the same.
pub async fn run(args: &Args) -> Result<bool, String> {
    let Mode::Throughput { streams, rounds } = &args.mode else { unreachable!("the mode of this file") };
    together(args, 1, true).await?;
    let mut rows: Vec<Row> = streams
        .iter()
        .map(|&streams| Row { streams, plain: Vec::new(), drafted: Vec::new(), identical: true })
        .collect();
    for round in 0..*rounds {
        for row in &mut rows {
            let (plain, drafted) = if round % 2 == 0 {
                let plain = together(args, row.streams, false).await?;
                (plain, together(args, row.streams, true).await?)
            } else {
                let drafted = together(args, row.streams, true).await?;
                (together(args, row.streams, false).await?, drafted)
            };
            row.plain.push(plain.rate);
            row.drafted.push(drafted.rate);
            row.identical &= plain.texts == drafted.texts;
        }
    }
    let identical = rows.iter().all(|row| row.identical);
    tell(args, rows);
    Ok(identical)
}

/// What streams gave together.
struct Together {
    rate: f64,
    texts: Vec<String>,
}

async fn together(args: &Args, streams: usize, speculative: bool) -> Result<Together, String> {
    let began = Instant::now();
    let prompts = args.prompts.iter().cycle().take(streams);
    let replies =
        try_join_all(prompts.map(|prompt| answer(args, prompt, speculative, Manner::default()))).await;
    let seconds = began.elapsed().as_secs_f64();
    let replies = replies.map_err(|failure| match failure {
        Failure::Busy => format!("the queue is full at {streams} streams"),
        Failure::Wrong(what) => what,
    })?;
    let replies: Vec<_> = replies.into_iter().flatten().collect();
    let tokens: usize = replies.iter().map(|reply| reply.tokens).sum();
    Ok(Together {
        rate: tokens as f64 / seconds,
        texts: replies.into_iter().map(|reply| reply.text).collect(),
    })
}

fn tell(args: &Args, rows: Vec<Row>) {
    let rows = rows.into_iter().map(|row| {
        let ratios = row.drafted.iter().zip(&row.plain).map(|(drafted, plain)| drafted / plain).collect();
        (row.streams, median(row.plain), median(row.drafted), median(ratios), row.identical)
    });
    if args.json {
        let rows: Vec<_> = rows
            .map(|(streams, plain, drafted, ratio, identical)| {
                json!({"streams": streams, "plain_tok_s": plain, "drafted_tok_s": drafted, "ratio": ratio, "identical": identical})
            })
            .collect();
        println!("{}", json!(rows));
        return;
    }
    println!("| streams | plain tok/s | with drafts tok/s | ratio | identical |");
    println!("| ---: | ---: | ---: | ---: | --- |");
    for (streams, plain, drafted, ratio, identical) in rows {
        let verdict = if identical { "yes" } else { "NO" };
        println!("| {streams} | {plain:.1} | {drafted:.1} | {ratio:.2} | {verdict} |");
    }
}
