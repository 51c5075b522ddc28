//! How the sequences of an engine share the pages of the cache: they get one when they need it, and if there is none the youngest gives its own back. It goes
//! on later with the same tokens: its full pages stay known as long as nobody needs them, and what is lost of them is computed again.

use crate::admission::{PageHolder, to_pause};
use crate::engine::Engine;
use crate::error::{Error, ModelCall, Result};
use crate::model::{SequenceStart, StepModel};
use crate::reuse::may_end;
use crate::sequence::Sequence;
use crate::speculation::MOST_LANES_WITH_DRAFTS;

impl<M: StepModel> Engine<M> {
    /// How many pages there are too few for a sequence that begins with these tokens and may sample `left` more, beside one for each that runs and may need another.
    /// Nobody begins while another waits for pages.
    pub(crate) fn lacking(&self, tokens: &[u32], left: u32) -> u32 {
        let waits = |sequence: &Sequence| sequence.is_paused() || sequence.pauses;
        let someone_waits = self.sequences().any(waits);
        self.lacking_beside(tokens, left).max(u32::from(someone_waits))
    }

    fn lacking_beside(&self, tokens: &[u32], left: u32) -> u32 {
        let (Some(book), Some(pool)) = (&self.book, self.limits.pages) else { return 0 };
        let spare = self.sequences().filter(|sequence| sequence.may_grow(pool.positions)).count() as u32;
        book.lacking(tokens, self.positions_at_beginning(tokens, left), spare, &may_end(self.checkpoints.as_ref()))
    }

    fn sequences(&self) -> impl Iterator<Item = &Sequence> {
        self.lanes.iter().filter_map(|lane| lane.running.as_ref())
    }

    /// Gives pages to the sequences that need one for their next token, the oldest first, and lets those go on that had to give theirs back. If there are too
    /// few, the youngest is to give its own back. A sequence that runs alone gets pages for its drafts too, which nobody else can need.
    pub(crate) fn share_pages(&mut self) -> Result<()> {
        let speculates = self.running() <= MOST_LANES_WITH_DRAFTS;
        let (Some(book), Some(pool)) = (&mut self.book, self.limits.pages) else { return Ok(()) };
        let mut holders: Vec<&mut Sequence> = Vec::new();
        for sequence in self.lanes.iter_mut().filter_map(|lane| lane.running.as_mut()) {
            if sequence.can_pause() {
                let (opened, holding) = sequence.paused();
                if let Some(opened) = opened {
                    self.model.close(opened);
                }
                if let Some(holding) = holding {
                    book.close(holding);
                }
                self.counts.preemptions += 1;
                tracing::debug!(sequence = sequence.id.value(), "pages given back to others");
            } else if sequence.holding.is_some() {
                holders.push(sequence);
            }
        }
        holders.sort_by_key(|sequence| sequence.age);
        let mut is_short = false;
        for sequence in &mut holders {
            let drafts = if speculates { sequence.policy_role.max_drafts() } else { 0 };
            while sequence.lacks_page(pool.positions, drafts) {
                let Some(page) = sequence.holding.as_mut().and_then(|holding| book.grow(holding)) else {
                    is_short = true;
                    break;
                };
                sequence.grew(page);
            }
        }
        if !is_short {
            return self.resume();
        }
        let views: Vec<PageHolder> =
            holders.iter().map(|sequence| PageHolder { age: sequence.age, leaves: sequence.leaves() }).collect();
        if let Some(index) = to_pause(&views) {
            holders[index].pauses = true;
        }
        Ok(())
    }

    /// Lets sequences go on that had to give their pages back, the oldest first, as far as there are pages for them.
    fn resume(&mut self) -> Result<()> {
        loop {
            let paused = self.lanes.iter().enumerate().filter_map(|(lane, of)| Some((lane, of.running.as_ref()?)));
            let Some((lane, sequence)) =
                paused.filter(|(_, sequence)| sequence.is_paused()).min_by_key(|(_, sequence)| sequence.age)
            else {
                return Ok(());
            };
            let (tokens, left) = (sequence.progress.tokens(), sequence.tokens_left());
            if self.sequences().any(|sequence| sequence.pauses) || self.lacking_beside(&tokens, left) > 0 {
                return Ok(());
            }
            let holding = self.holding_for(&tokens, left).expect("the cache has pages");
            let restored = self.restored(lane, Some(&holding), holding.valid());
            let sequence = self.lanes[lane].running.as_mut().expect("it runs");
            let start = SequenceStart {
                tokens: &tokens,
                lane: lane as u32,
                pages: holding.pages(),
                cached: holding.valid(),
                restored,
                budget: left,
                sampling: &sequence.request.sampling,
                eog: &sequence.request.eog,
                gate: sequence.gates.gate(),
                speculative: sequence.policy_role.speculative(),
                last_token: sequence.feeding.last_token,
                logprobs: sequence.request.logprobs,
            };
            let opened = self.model.open(&start).map_err(|source| Error::model(ModelCall::Open, source))?;
            sequence.resumed(opened, holding);
            sequence.feeding.rows = self.model.feed_rows(sequence.plan.feeds());
        }
    }
}
