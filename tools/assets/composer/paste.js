// Clean what office programs put on the clipboard before the schema reads it. The schema drops every element and
// attribute that it does not know; this keeps what it would otherwise misread: Word's lists are paragraphs.

const BLOCKS = "h1, h2, h3, h4, img, table, hr";

export function cleanPasted(html) {
  const page = new DOMParser().parseFromString(html.replace(/<!--\[if[\s\S]*?<!\[endif\]-->/g, ""), "text/html");
  for (const each of page.querySelectorAll("script, style, meta, link, title, xml, o\\:p, noscript, template")) each.remove();
  for (const comment of comments(page)) comment.remove();
  listsFromWord(page);
  // A colour that only repeats the default of the source is noise.
  for (const each of page.querySelectorAll("[style]"))
    each.setAttribute("style", each.getAttribute("style").replace(/(?:^|;)\s*color:\s*(?:#000(?:000)?|black|windowtext|rgb\(0,\s*0,\s*0\))\s*/gi, ""));
  return page.body.innerHTML;
}

/** Return whether pasted HTML has a structure that one text cannot hold, so that the server makes blocks of it. */
export function hasBlocks(html) {
  return new DOMParser().parseFromString(html, "text/html").querySelector(BLOCKS) !== null;
}

function comments(page) {
  const walker = page.createTreeWalker(page, NodeFilter.SHOW_COMMENT);
  const found = [];
  while (walker.nextNode()) found.push(walker.currentNode);
  return found;
}

function listsFromWord(page) {
  for (const item of page.querySelectorAll("p[class*=MsoListParagraph], p[style*=mso-list]")) {
    const marker = item.querySelector("[style*='mso-list']");
    const isNumbered = /^\s*\w+[.)]/.test(marker?.textContent ?? item.textContent);
    marker?.remove();
    item.innerHTML = item.innerHTML.replace(/^\s*(?:[·•o§]|&middot;)(?:\s|&nbsp;)+/, "");
    const kind = isNumbered ? "ol" : "ul";
    const entry = page.createElement("li");
    entry.append(...item.childNodes);
    const before = item.previousElementSibling;
    if (before?.matches(`${kind}[data-from-word]`)) {
      before.append(entry);
      item.remove();
    } else {
      const list = page.createElement(kind);
      list.dataset.fromWord = "";
      list.append(entry);
      item.replaceWith(list);
    }
  }
}
