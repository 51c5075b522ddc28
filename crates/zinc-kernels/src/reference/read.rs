//! Reference of `read`.

/// The exclusive or of the words of every `y.len()`-th tile of `tile_words` words, from each of the first tiles on. `y` is not empty.
pub fn read(x: &[u32], tile_words: usize, y: &mut [u32]) {
    y.fill(0);
    for (tile, words) in x.chunks(tile_words).enumerate() {
        let share = tile % y.len();
        y[share] = words.iter().fold(y[share], |combined, word| combined ^ word);
    }
}
