/**
 * What the build puts into the program as one value: a page of src/pages (scripts/pages.mjs), and the text of a JSON file
 * (scripts/compile.mjs).
 */
declare module '*.html' {
  const page: import('./html-page.js').HtmlPage;
  export default page;
}

declare module '*.json?text' {
  const text: string;
  export default text;
}
