// Elements out of a tag and attributes.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  attribute(node, attributes);
  node.append(...children);
  return node;
}

export function svg(tag, attributes = {}, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  attribute(node, attributes);
  if (text !== undefined) node.textContent = text;
  return node;
}

function attribute(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    // A strict policy forbids style attributes, not styles that a script sets.
    if (name === "style") node.style.cssText = value;
    else node.setAttribute(name, value);
  }
}
