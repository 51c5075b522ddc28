//! `read` combines every word once, in the workgroup whose it is.

use crate::support::Arena;
use crate::support::data::{Random, live};
use zinc_kernels::ops::{READ_TILE_BYTES, Read};
use zinc_kernels::reference;

const TILE_WORDS: usize = READ_TILE_BYTES as usize / 4;

fn check(tiles: usize, workgroups: usize) {
    let mut random = Random::new(&format!("{tiles} {workgroups}"));
    let words: Vec<u32> = (0..tiles * TILE_WORDS).map(|_| random.bits() as u32).collect();
    let mut arena = Arena::new();
    let y = arena.output::<u32>(workgroups);
    let read = Read {
        state: arena.state(live()),
        x: arena.input(&words).address,
        tiles: tiles as u32,
        y: y.address,
        workgroups: workgroups as u32,
    };
    arena.run(&[read.dispatch(&arena.gpu.target())]);
    let mut expected = vec![0; workgroups];
    reference::read(&words, TILE_WORDS, &mut expected);
    assert_eq!(arena.read(y), expected, "{tiles} tiles, {workgroups} workgroups");
}

#[test]
fn tiles_are_shared_out() {
    for (tiles, workgroups) in [(1, 1), (1, 3), (3, 1), (6, 3), (7, 3), (5, 64), (130, 64)] {
        check(tiles, workgroups);
    }
}

#[test]
#[should_panic(expected = "0 workgroups read")]
fn nobody_reads_nothing() {
    let read = Read { state: 0, x: 0, tiles: 1, y: 0, workgroups: 0 };
    let _ = read.dispatch(&zinc_kernels::Target::new(32));
}
