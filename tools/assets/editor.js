// The editor: every textarea with `data-editor` becomes one. The textarea keeps the text, so that a form is sent as ever,
// and stays what it is where scripts do not run.

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { html } from "@codemirror/lang-html";
import { jinja } from "@codemirror/lang-jinja";
import { markdown } from "@codemirror/lang-markdown";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const LANGUAGES = {
  html: () => jinja({ base: html() }),
  mjml: () => jinja({ base: html({ selfClosingTags: true }) }),
  markdown: () => markdown({ htmlTagLanguage: html() }),
  text: () => jinja(),
};

// Colours are the page's own tokens, so that light and dark are decided in one place.
const COLOURS = HighlightStyle.define([
  { tag: [tags.tagName, tags.keyword, tags.heading], color: "var(--code-name)" },
  { tag: [tags.attributeName, tags.propertyName], color: "var(--code-attribute)" },
  { tag: [tags.string, tags.attributeValue, tags.link, tags.url], color: "var(--code-string)" },
  { tag: [tags.variableName, tags.special(tags.variableName), tags.operator], color: "var(--code-variable)" },
  { tag: [tags.comment, tags.meta, tags.punctuation, tags.bracket], color: "var(--ink-soft)" },
  { tag: tags.heading, fontWeight: "600" },
  { tag: tags.strong, fontWeight: "600" },
  { tag: tags.emphasis, fontStyle: "italic" },
]);

const LOOK = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--field)", fontSize: "var(--size-small)" },
  ".cm-content, .cm-gutters": { fontFamily: "var(--mono)" },
  ".cm-gutters": { color: "var(--ink-soft)", backgroundColor: "var(--field)", border: "none" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection) !important" },
});

function edit(area) {
  const label = area.labels?.[0];
  const view = new EditorView({
    doc: area.value,
    parent: area.parentElement,
    extensions: [
      EditorView.cspNonce.of(document.querySelector('meta[name="style-nonce"]').content),
      lineNumbers(),
      history(),
      drawSelection(),
      indentOnInput(),
      bracketMatching(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      lintGutter(),
      syntaxHighlighting(COLOURS),
      LOOK,
      (LANGUAGES[area.dataset.editor] ?? LANGUAGES.text)(),
      keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap]),
      EditorView.lineWrapping,
      EditorState.readOnly.of(area.readOnly),
      EditorView.editorAttributes.of({ class: "editor" }),
      EditorView.contentAttributes.of({ tabindex: "0", "aria-label": label ? label.textContent.trim() : area.name }),
      EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        area.value = update.state.doc.toString();
        // Listeners of the textarea, such as the preview, get the same event as for typing.
        area.dispatchEvent(new Event("input", { bubbles: true }));
      }),
    ],
  });
  area.hidden = true;
  label?.addEventListener("click", () => view.focus());
  area.form?.addEventListener("reset", () =>
    setTimeout(() => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: area.value } })),
  );
  // `area.complain([{line, message}])` marks lines of the text.
  area.complain = (complaints) =>
    view.dispatch(
      setDiagnostics(
        view.state,
        complaints.map(({ line, message }) => {
          const place = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
          return { from: place.from, to: place.to, severity: "error", message };
        }),
      ),
    );
  area.editor = view;
}

function editAll(root) {
  for (const area of root.querySelectorAll("textarea[data-editor]")) if (!area.editor) edit(area);
}

editAll(document);
document.addEventListener("htmx:load", (event) => editAll(event.target));
