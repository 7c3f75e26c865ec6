/**
 * A page of src/pages: scripts/pages.mjs makes it from the document, its style sheet and its program.
 */
declare module '*.html' {
  const page: import('./html-page.js').HtmlPage;
  export default page;
}
