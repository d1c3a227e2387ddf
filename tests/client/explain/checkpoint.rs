// SPDX-License-Identifier: MIT
//! An editor keeps what it can undo; every so often it clones the whole text instead of one change.

struct Editor {
    lines: Vec<String>,
    undo: Vec<(usize, String)>,
    kept: Option<Vec<String>>,
}

#[inline(never)]
fn checkpoint(editor: &mut Editor) {
    editor.kept = Some(editor.lines.clone());
    editor.undo.clear();
}

#[inline(never)]
fn remember(editor: &mut Editor, at: usize) {
    let old = editor.lines[at].clone();
    editor.undo.push((at, old));
}

#[inline(never)]
fn apply_edit(editor: &mut Editor, at: usize, text: &str) {
    let at = at % editor.lines.len();
    remember(editor, at);
    editor.lines[at].push_str(text);
    if editor.undo.len() == 150 {
        checkpoint(editor);
    }
}

fn main() {
    println!("function: checkpoint::apply_edit\ncause: checkpoint::checkpoint");
    let mut editor = Editor {
        lines: (0..250).map(|n| format!("the line with the number {n}")).collect(),
        undo: Vec::with_capacity(200),
        kept: None,
    };
    for i in 0..200 {
        apply_edit(&mut editor, i * 17, " and more");
    }
    println!("kept: {}", editor.kept.map_or(0, |lines| lines.len()));
}
