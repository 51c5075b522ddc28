// Which keys a row attends to: those up to its own position, and with a window only the last WINDOW of them.
//
// Whoever includes this has the specialisation constant WINDOW, in positions; 0: there is no window.

// The first position whose key a row at `position` attends to.
uint first_attended(uint position) { return WINDOW == 0 || position < WINDOW ? 0u : position - WINDOW + 1u; }
// Whether a row at `position` attends to the key at position `key`.
bool attends(uint position, uint key) { return key <= position && (WINDOW == 0 || position - key < WINDOW); }
