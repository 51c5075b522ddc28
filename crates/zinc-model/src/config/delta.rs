//! The gated delta nets of a model, and which of its layers they are.

use zinc_kernels::ops::HeadOrder;

use super::keys::Keys;
use super::tensors::TAPS;
use super::{Architecture, DeltaNetLayer, MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS};
use crate::error::Result;

/// Every layer of this number, and its multiples, has attention where the file does not say otherwise.
const ATTENTION_INTERVAL: u32 = 4;

/// The delta net of each layer, `None` where it has attention. Empty if no model of the architecture has any.
pub(super) fn delta_nets(
    keys: &Keys<'_>,
    architecture: Architecture,
    n_layer: u32,
) -> Result<Vec<Option<DeltaNetLayer>>> {
    let Some(order) = architecture.traits().delta_net else { return Ok(Vec::new()) };
    let recurrent = recurrent_layers(keys, n_layer)?;
    if !recurrent.contains(&true) {
        return Ok(Vec::new());
    }
    let delta_net = delta_net(keys, order)?;
    Ok(recurrent.into_iter().map(|recurrent| recurrent.then_some(delta_net)).collect())
}

/// Whether each layer is a delta net: by a list of the file's, or else every one whose number, from 1, is no multiple of the interval.
fn recurrent_layers(keys: &Keys<'_>, n_layer: u32) -> Result<Vec<bool>> {
    if let Some(mut listed) = keys.get_bools("attention.recurrent_layers")? {
        // The list may go on over the blocks behind the layers.
        if listed.len() < n_layer as usize {
            let expected = format!("a list with a place for each of the {n_layer} layers");
            return Err(keys.bad("attention.recurrent_layers", format!("a list of {}", listed.len()), expected));
        }
        listed.truncate(n_layer as usize);
        return Ok(listed);
    }
    let interval = keys.count("full_attention_interval", MAX_LAYERS)?.unwrap_or(ATTENTION_INTERVAL);
    Ok((1..=n_layer).map(|number| !number.is_multiple_of(interval)).collect())
}

fn delta_net(keys: &Keys<'_>, order: HeadOrder) -> Result<DeltaNetLayer> {
    let n_key_head = keys.require_count("ssm.group_count", MAX_HEADS)?;
    let n_value_head = keys.require_count("ssm.time_step_rank", MAX_HEADS)?;
    if !n_value_head.is_multiple_of(n_key_head) {
        let expected = format!("a multiple of the {n_key_head} heads of keys in {}", keys.full("ssm.group_count"));
        return Err(keys.bad("ssm.time_step_rank", n_value_head, expected));
    }
    let head_dim = keys.require_count("ssm.state_size", MAX_HEAD_DIM)?;
    let width = n_value_head * head_dim;
    match keys.get_u32("ssm.inner_size")? {
        Some(found) if found != width => {
            let expected = format!("{width}, the {n_value_head} heads of values of {head_dim} elements each");
            return Err(keys.bad("ssm.inner_size", found, expected));
        }
        _ => {}
    }
    let taps = keys.require_count("ssm.conv_kernel", u32::MAX)?;
    if taps != TAPS {
        return Err(keys.bad("ssm.conv_kernel", taps, format!("{TAPS}: other convolutions are not supported")));
    }
    Ok(DeltaNetLayer { n_key_head, n_value_head, head_dim, order })
}
