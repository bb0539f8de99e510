//! Messages: a window of a long line, files named as what they are, nothing that steers the terminal.

use std::fs;

use crate::program::{Ran, fixture, packscope, packscope_in};

/// The program on a file of these bytes, `FILE` in the arguments being its name.
fn on_file(bytes: &[u8], args: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("given.ron"), bytes).unwrap();
    packscope_in(
        folder.path(),
        &args.iter().map(|arg| if *arg == "FILE" { "given.ron" } else { *arg }).collect::<Vec<_>>(),
    )
}

/// A failure whose message a person can read: no longer than a screen.
#[track_caller]
fn fails_shortly(ran: &Ran, words: &[&str]) {
    ran.fails(2, words);
    assert!(ran.stderr.chars().count() < 3000, "{} characters", ran.stderr.chars().count());
}

/// The character above which the message's caret stands.
fn pointed_at(ran: &Ran) -> Option<char> {
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let caret = lines.iter().position(|line| line.contains('▲') || line.contains("╰── here"))?;
    let column = lines[caret].chars().position(|c| "▲╰".contains(c))?;
    lines[caret - 1].chars().nth(column)
}

#[test]
fn an_error_far_along_a_line_shows_a_window_of_it() {
    for name in ["x".repeat(70_000), "µ".repeat(70_000), "y".repeat(2_300_000)] {
        let text = format!("(schema: 1, name: \"{name}\", Rots: [], look_for: \"{name}\")");
        let column = text.chars().take_while(|c| *c != 'R').count() + 1;
        let ran = on_file(text.as_bytes(), &["plan", "FILE"]);
        fails_shortly(&ran, &["Rots", &format!("line 1, column {column}"), &format!("given.ron:1:{column}")]);
        assert_eq!(pointed_at(&ran), Some('R'), "{}", ran.stderr);
    }
    let lines = format!("(\n{}schema: 1,\n Rots: [],\n)", "// a remark\n".repeat(200_000));
    let ran = on_file(lines.as_bytes(), &["plan", "FILE"]);
    fails_shortly(&ran, &["line 200003, column 2", "200003"]);
    assert_eq!(pointed_at(&ran), Some('R'), "{}", ran.stderr);
    let device = format!("(key: \"{}\", Sms: 4)", "x".repeat(70_000));
    let ran = on_file(device.as_bytes(), &["plan", "pat-01", "--device", "FILE"]);
    fails_shortly(&ran, &["Sms", "column 70011"]);
}

#[test]
fn long_forms_and_traces_are_shown_in_a_window_too() {
    let levels = vec!["1"; 30_000].join(",");
    let ran = packscope(&["plan", "--tree", &format!("{levels}X_32")]);
    fails_shortly(&ran, &["--tree", "not a whole number"]);
    assert_eq!(pointed_at(&ran), Some('X'), "{}", ran.stderr);
    fails_shortly(&packscope(&["plan", "--decode", &"9".repeat(100_000)]), &["--decode"]);
    fails_shortly(&packscope(&["plan", &"n".repeat(100_000)]), &["packscope list samples"]);
    let line = r#"{"timestamp": 0, "input_length": 600, "output_length": 9, "hash_ids": [0, 1]}"#;
    let bad = format!("{line}\n{{\"note\": \"{}\", \"input_length\": X}}\n", "µ".repeat(100_000));
    let ran = on_file(bad.as_bytes(), &["plan", "--mooncake", "FILE", "--window", "0:1"]);
    fails_shortly(&ran, &["given.ron, line 2, column 100030"]);
    assert_eq!(pointed_at(&ran), Some('X'), "{}", ran.stderr);
    let bad = format!("{line}\n{{\"input_length\": \"{}\"}}\n", "y".repeat(2_000_000));
    fails_shortly(&on_file(bad.as_bytes(), &["plan", "--mooncake", "FILE", "--window", "0:1"]), &["line 2"]);
}

#[test]
fn a_file_of_another_kind_is_named_as_what_it_is() {
    let inputs: [(&[&str], &str); 6] = [
        (&["plan", "FILE"], "a batch file"),
        (&["plan", "pat-01", "--device", "FILE"], "a device file"),
        (&["plan", "--mooncake", "FILE", "--window", "0:1"], "a Mooncake trace"),
        (&["bench", "--peers", "FILE"], "a file of peers' times"),
        (&["calibrate", "-o", "new.ron", "--from", "FILE"], "a file of measured runs"),
        (&["verify", "FILE"], "a capture"),
    ];
    for (args, what) in inputs {
        on_file(b"\x1f\x8b\x08\0\0", args).fails(2, &["given.ron is compressed by gzip", what, "unpack it"]);
        on_file(b"\xff\xfe(\0", args).fails(2, &["given.ron is UTF-16 text", what, "UTF-8"]);
        on_file(b"[{\"a\": 1}]", args).fails(2, &["given.ron is a JSON array", what]);
        on_file(b" \n", args).fails(2, &["given.ron is empty"]);
        let directory = args.iter().map(|arg| if *arg == "FILE" { "fixtures" } else { *arg }).collect::<Vec<_>>();
        if what != "a device file" {
            packscope(&directory).fails(2, &["fixtures is a directory", what]);
        }
        if what != "a capture" {
            on_file(b"\xef\xbb\xbf(schema: 1)", args).fails(2, &["byte order mark", what]);
            on_file(b"\x89PSCOPE\n\x01\0\0\0", args).fails(2, &["given.ron is a capture", what, "packscope view"]);
        }
    }
    on_file(b"{\"schema\": 1}", &["plan", "FILE"]).fails(2, &["is a JSON object, not a batch file"]);
    on_file(b"(schema: 1)", &["verify", "FILE"]).fails(2, &["is RON text, not a capture"]);
}

#[test]
fn control_characters_of_a_name_reach_neither_terminal_nor_picture() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let batch = "(schema: 1, name: \"red\\u{1b}[31m\\nmakespan 1 ns\\u{7}\", roots: [(tokens: 64, repeat: 4)])";
    fs::write(at.join("odd.ron"), batch).unwrap();
    let clean = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control());
    for args in [
        &["plan", "odd.ron"][..],
        &["run", "odd.ron", "--backend", "sim", "-o", "odd.pscope"],
        &["compare", "odd.ron", "--backend", "sim"],
    ] {
        let ran = packscope_in(at, args);
        assert!(ran.code == 0 && clean(&ran.stdout) && clean(&ran.stderr), "{args:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.starts_with("red␛[31m␊makespan 1 ns␇"), "{}", ran.stdout);
    }
    let ran = packscope_in(at, &["export", "odd.pscope", "--svg", "odd.svg", "--png", "odd.png"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(fs::read_to_string(at.join("odd.svg")).unwrap().contains("red␛[31m␊makespan"));
    let wrong = packscope_in(at, &["plan", "no\x1b[2Jsuch"]);
    assert!(clean(&wrong.stderr) && wrong.stderr.contains("no␛[2Jsuch"), "{}", wrong.stderr);
    fs::write(at.join("bad.ron"), "(schema: 1, \x1b[2J: 3)").unwrap();
    assert!(clean(&packscope_in(at, &["plan", "bad.ron"]).stderr));
}

/// A conversation of a thousand turns goes through everything; one of more is refused with the number.
#[test]
fn a_deep_tree_passes_everywhere_or_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = |turns: usize| {
        let ids: Vec<String> = (0..turns).map(|id| id.to_string()).collect();
        let (length, ids) = (turns * 512, ids.join(","));
        format!("{{\"timestamp\": 0, \"input_length\": {length}, \"output_length\": 1, \"hash_ids\": [{ids}]}}\n")
    };
    fs::write(at.join("t.jsonl"), (1..=1001).map(line).collect::<String>()).unwrap();
    let import = |count: usize| {
        let window = format!("0:{count}");
        packscope_in(at, &["import", "--mooncake", "t.jsonl", "--window", &window, "-o", "deep.ron"])
    };
    import(1001).fails(2, &["1,000 nodes"]);
    for count in [100, 1000] {
        assert_eq!(import(count).code, 0);
        let planned = packscope_in(at, &["plan", "deep.ron", "--json"]).json();
        assert_eq!(planned["batch"]["requests"], count);
        let run = packscope_in(at, &["run", "deep.ron", "--backend", "sim", "-o", "deep.pscope", "--json"]);
        assert_eq!(run.json()["schema"], 1);
        let verified = packscope_in(at, &["verify", "deep.pscope"]);
        assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
    }
    let nested =
        format!("(schema: 1, roots: {}[(tokens: 32)]{})", "[(tokens: 32, children: ".repeat(1000), ")]".repeat(1000));
    on_file(nested.as_bytes(), &["plan", "FILE"]).fails(2, &["1,001 nodes", "at most 1,000"]);
    let endless = format!("(schema: 1, roots: {}", "[(tokens: 32, children: ".repeat(1_000_000));
    on_file(endless.as_bytes(), &["plan", "FILE"]).fails(2, &["nested too deeply", "1,000 nodes"]);
}

#[test]
fn a_step_near_the_largest_number_does_not_wrap() {
    let line = r#"{"timestamp": 0, "input_length": 600, "output_length": 18446744073709551615, "hash_ids": [0, 1]}"#;
    let given = line.as_bytes();
    for step in ["18446744073709551615", "18446744073709551590", "9223372036854775808"] {
        let args = ["plan", "--mooncake", "FILE", "--window", "0:1", "--step", step];
        on_file(given, &args).fails(2, &["at most 1,048,576"]);
    }
    let trace = fixture("small-trace.jsonl");
    let ran = packscope(&["plan", "--mooncake", &trace, "--window", "0:2", "--step", "18446744073709551615", "--json"]);
    assert_eq!(ran.json()["batch"]["requests"], 2);
}
