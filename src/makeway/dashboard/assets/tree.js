// A page as a value: h() describes elements, patch() makes what is there look like that. What stays
// the same is left alone, so focus, scrolling and selected text survive an update.

export function h(tag, props, ...children) {
  return {
    tag,
    props: props || {},
    children: children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false),
  };
}

// A drawing that is made anew only when its signature changes.
export function drawn(signature, make) {
  return { signature, make };
}

export function patch(parent, children) {
  const keyed = new Map(),
    wanted = new Set();
  for (const node of parent.childNodes) if (node.makewayKey !== undefined) keyed.set(node.makewayKey, node);
  for (const child of children) if (child.props) wanted.add(child.props.key);
  const isLeft = (node) => node && node.makewayKey !== undefined && !wanted.has(node.makewayKey);
  let next = parent.firstChild;
  for (const child of children) {
    const found = reusable(child, keyed, next, isLeft);
    while (found !== next && isLeft(next)) next = removed(next);
    const node = found || create(child, parent);
    if (node !== next) parent.insertBefore(node, next);
    else next = next.nextSibling;
    update(node, child);
  }
  while (next) next = removed(next);
}

// What comes after a node that is taken away.
function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function reusable(child, keyed, next, isLeft) {
  if (typeof child !== "object") return next && next.nodeType === Node.TEXT_NODE ? next : null;
  if (child.make) return next && next.makewaySignature === child.signature ? next : null;
  const key = child.props.key;
  if (key !== undefined) return keyed.get(key) || another(key, child, next, isLeft);
  const fits = next && next.makewayProps && next.makewayKey === undefined && next.localName === child.tag;
  return fits ? next : null;
}

// A node whose own is no longer shown becomes another's: cheaper than a new one, when a list is scrolled.
function another(key, child, next, isLeft) {
  if (!isLeft(next) || next.localName !== child.tag || next.contains(document.activeElement)) return null;
  next.makewayKey = key;
  return next;
}

function create(child, parent) {
  if (typeof child !== "object") return document.createTextNode("");
  if (child.make) {
    const node = child.make();
    node.makewaySignature = child.signature;
    return node;
  }
  const isDrawing = child.tag === "svg" || parent.namespaceURI === "http://www.w3.org/2000/svg";
  const node = isDrawing
    ? document.createElementNS("http://www.w3.org/2000/svg", child.tag)
    : document.createElement(child.tag);
  node.makewayProps = {};
  node.makewayKey = child.props.key;
  return node;
}

function update(node, child) {
  if (typeof child !== "object") {
    const text = String(child);
    if (node.data !== text) node.data = text;
    return;
  }
  if (child.make) return;
  const before = node.makewayProps,
    now = child.props;
  for (const name of Object.keys(before)) if (!(name in now)) put(node, name, null);
  for (const [name, value] of Object.entries(now))
    if (before[name] !== value || name === "value") put(node, name, value);
  node.makewayProps = now;
  patch(node, child.children);
}

function put(node, name, value) {
  if (name === "key") return;
  if (name === "style") {
    node.style.cssText = "";
    for (const [property, text] of Object.entries(value || {})) node.style.setProperty(property, text);
  } else if (name.startsWith("on")) {
    node[name] = value;
  } else if (name === "value") {
    if (node.value !== value && node !== document.activeElement) node.value = value;
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else {
    const text = value === true ? "" : String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}
