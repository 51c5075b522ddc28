//! `zinc logits`: the logits at every position of given ids. An instrument for comparing engines.

use std::fmt::Write as _;
use std::fs;

use serde::Serialize;
use zinc_engine::ModelFile;
use zinc_model::Tokenizer;

use crate::args::{Format, LogitsArgs};
use crate::commands::devices;
use crate::error::{Error, Result};
use crate::opening::Opening;
use crate::{demo, options, output, surroundings};

#[derive(Serialize)]
struct Position {
    position: usize,
    /// The token that went in.
    id: u32,
    /// The tokens with the highest logits, the highest first; equal ones by id.
    top: Vec<Candidate>,
}

#[derive(Serialize)]
struct Candidate {
    id: u32,
    logit: f32,
    piece: String,
}

pub(crate) fn run(args: &LogitsArgs) -> Result<()> {
    if args.device.list_devices {
        return devices::list(Format::Text);
    }
    let mut opening = Opening::new();
    let mut show = |event| opening.show(event);
    let path = demo::resolve(args.model.model.as_deref())?;
    let file = ModelFile::open(&path, &options::file_options(&args.cache, args.rope.overrides()), &mut show)?;
    let vocabulary = file.model().config.n_vocab as usize;
    check_ids(&args.ids, vocabulary)?;
    file.check_prompt(&args.ids)?;
    let place = surroundings::open_place(
        &options::device_options(args.device.device.as_ref(), args.device.units.matrix_units)?,
        &mut show,
    )?;
    let mut logits = Vec::with_capacity(args.ids.len() * vocabulary);
    let act = args.device.act.into();
    file.score(&place, act, args.ubatch.shape(), &args.ids, &mut |_, row| logits.extend_from_slice(row), &mut show)?;
    if let Some(path) = &args.raw {
        let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        fs::write(path, bytes).map_err(|source| Error::Write { path: path.clone(), source })?;
        let (rows, bytes) = (args.ids.len(), logits.len() * 4);
        output::notice(&format!("{rows} x {vocabulary} float32 values, {bytes} bytes, in {}", path.display()));
        return Ok(());
    }
    let positions: Vec<Position> = logits
        .chunks_exact(vocabulary)
        .zip(&args.ids)
        .enumerate()
        .map(|(position, (row, &id))| Position { position, id, top: top(file.tokenizer(), row, args.top) })
        .collect();
    match args.format.format() {
        Format::Json => output::stdout_json(&positions),
        Format::Text => output::stdout(&table(&positions)),
    }
}

fn check_ids(ids: &[u32], vocabulary: usize) -> Result<()> {
    match ids.iter().position(|&id| id as usize >= vocabulary) {
        Some(index) => Err(Error::TokenOutsideVocabulary { id: ids[index], place: index + 1, vocabulary }),
        None => Ok(()),
    }
}

fn top(tokenizer: &Tokenizer, row: &[f32], count: usize) -> Vec<Candidate> {
    let candidates = ranked(row).into_iter().take(count);
    candidates.map(|id| Candidate { id, logit: row[id as usize], piece: tokenizer.decode_inside(&[id]) }).collect()
}

/// Ids by falling logit, equal ones by id; values that are not numbers come first, so that they are seen.
fn ranked(row: &[f32]) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..row.len() as u32).collect();
    let key = |id: u32| if row[id as usize].is_nan() { f32::INFINITY } else { row[id as usize] };
    ids.sort_by(|&a, &b| key(b).total_cmp(&key(a)).then(a.cmp(&b)));
    ids
}

fn table(positions: &[Position]) -> String {
    let mut text = String::new();
    for Position { position, id, top } in positions {
        write!(text, "{position:>5} {id:>7} ").expect("a string takes everything");
        for Candidate { id, logit, piece } in top {
            write!(text, "  {id} '{}' {logit:.4}", piece.escape_debug()).expect("a string takes everything");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_rank_by_id_and_nan_first() {
        assert_eq!(ranked(&[1.0, 3.0, 1.0, -2.0, 3.0]), [1, 4, 0, 2, 3]);
        assert_eq!(ranked(&[1.0, f32::NAN, f32::NEG_INFINITY]), [1, 0, 2]);
    }

    #[test]
    fn ids_are_checked() {
        assert!(check_ids(&[0, 9], 10).is_ok());
        let error = check_ids(&[3, 10], 10).unwrap_err().to_string();
        assert_eq!(error, "token id 10 at place 2 is outside the vocabulary, whose ids are 0 to 9");
    }
}
