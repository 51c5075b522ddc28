//! `zinc chat` in a terminal: a pseudo-terminal whose other end is the test.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::support::{QUESTION, argument, command, zinc, zinc_with_input};

/// As long as something is waited for that takes a second at most on a machine with nothing else to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// Keys as a terminal sends them.
const ENTER: &str = "\r";
const BACKSPACE: &str = "\x7f";
const UP: &str = "\x1b[A";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

/// A conversation in a terminal.
struct Terminal {
    child: Child,
    keyboard: File,
    /// The program's end, kept open to look at its settings.
    line: File,
    screen: Receiver<Vec<u8>>,
    /// What has been shown and not been waited for.
    shown: String,
}

impl Terminal {
    /// Starts a conversation on the interpreter and waits for its prompt.
    fn chat(arguments: &[&str]) -> Self {
        let keyboard: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
        let line = File::options().read(true).write(true).open(name).unwrap();
        let mut chat = command(&[&["chat", "--device", "interpreter"], arguments].concat());
        chat.env("TERM", "xterm").stdin(line.try_clone().unwrap());
        let child = chat.stdout(line.try_clone().unwrap()).stderr(line.try_clone().unwrap()).spawn().unwrap();
        let keyboard = File::from(keyboard);
        let (send, screen) = channel();
        let mut output = keyboard.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                if send.send(buffer[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut terminal = Self { child, keyboard, line, screen, shown: String::new() };
        terminal.wait_for("\x1b[?2004h");
        terminal
    }

    fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this is shown; returns what was shown before it.
    #[track_caller]
    fn wait_for(&mut self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.shown.find(text) {
                let before = self.shown[..at].to_owned();
                self.shown.drain(..at + text.len());
                return before;
            }
            let left = end.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.screen.recv_timeout(left) else { panic!("no {text:?} in {:?}", self.shown) };
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    fn status(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

/// The number of tokens in a sentence that says that something is too long.
fn tokens(text: &str, before: &str) -> String {
    let at = text.find(before).unwrap_or_else(|| panic!("no '{before}' in {text}")) + before.len();
    text[at..].chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn what_is_typed_and_pasted_arrives_whole() {
    // More than the context holds, so that no answer is computed and the number of tokens tells what has arrived.
    let long = "telescope ".repeat(800);
    let answers = ["--temp", "0", "-n", "2", "-c", "256"];
    let piped = [&["chat", "--device", "interpreter"], &answers[..]].concat();
    let expected = zinc_with_input(&piped, &format!("{QUESTION}\n{long}\n"));
    let expected = tokens(&expected.stderr, "the conversation has ");

    // The second message is typed before the first one is answered.
    let mut terminal = Terminal::chat(&answers);
    terminal.type_keys(&format!("{QUESTION}{ENTER}{long}{ENTER}"));
    terminal.wait_for("the conversation has ");
    assert_eq!(tokens(&terminal.wait_for(" and the context"), ""), expected);

    let lines = "a telescope\n/exit\n".repeat(400);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lines.txt");
    std::fs::write(&path, &lines).unwrap();
    let expected = zinc(&["run", "--device", "interpreter", "-c", "256", "-f", &argument(&path)]);
    let expected = tokens(&expected.stderr, "the prompt has ");
    terminal.type_keys(&format!("/clear{ENTER}"));
    terminal.wait_for("cleared");
    terminal.type_keys(&format!("\x1b[200~{}\x1b[201~{ENTER}", lines.trim_end().replace('\n', "\r")));
    terminal.wait_for("the conversation has ");
    assert_eq!(tokens(&terminal.wait_for(" and the context"), ""), expected);

    // What is taken for a command stays on the line; what was sent can be fetched again.
    terminal.type_keys(&format!("/exti{ENTER}"));
    terminal.wait_for("/exti is no command");
    terminal.wait_for("> /exti");
    terminal.type_keys(&BACKSPACE.repeat(5));
    terminal.type_keys(&format!("/help{ENTER}"));
    terminal.wait_for("/regen answers again");
    terminal.type_keys(&format!("{UP}{ENTER}"));
    terminal.wait_for("/regen answers again");

    terminal.keyboard.write_all(b"caf\xe9?").unwrap();
    terminal.wait_for("is not UTF-8");
    terminal.type_keys(CTRL_D);
    assert_eq!(terminal.status().code(), Some(0));
}

#[test]
fn ctrl_c_leaves_where_there_is_no_answer() {
    let mut terminal = Terminal::chat(&[]);
    terminal.type_keys(&format!("not sent{CTRL_C}"));
    assert_eq!(terminal.status().code(), Some(130));
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let terminal = Terminal::chat(&[]);
    let is_edited = |line: &File| !tcgetattr(line).unwrap().local_modes.contains(LocalModes::ICANON);
    assert!(is_edited(&terminal.line));
    let process = rustix::process::Pid::from_child(&terminal.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let line = terminal.line.try_clone().unwrap();
    assert_eq!(terminal.status().code(), Some(130));
    assert!(!is_edited(&line));
}

#[test]
fn plain_lines_are_read_where_the_terminal_cannot_be_edited_in_or_should_not_be() {
    let outcome = zinc_with_input(&["chat", "--simple-io", "--device", "interpreter"], "/help\n/exti\n/exit\n");
    assert!(outcome.stderr.contains("//exti sends it as a message"), "{outcome:?}");
    assert_eq!(outcome.success(), "");
}
