"""What is asked about the texts of text_prompts.py."""

SUMMARIES = (
    "Summarize: {}", "Summarize: {}", "Summarize: {}", "Summarize the following text in three sentences.\n\n{}",
    "TL;DR of this article: {}", "{}\n\nWhat is the main point of the article above?", "Write a headline and a short summary.\n\n{}",
    "List the key facts of this text.\n\n{}", "Please summarize the article below in one paragraph.\n\n{}",
    "{}\n\nSummarize this in plain English.", "Give me the highlights of this article as three short bullet points:\n{}")

LAYOUTS = (
    "{text}\n{question}", "{text}\n{question}", "{text}\n\n{question}", "{question}\n\n{text}",
    "Context: {text}\n\nQuestion: {question}", "Answer the question with the help of the text.\n\n{text}\n\n{question}",
    "Documents:\n{text}\n\nAnswer from the documents alone: {question}")

PHRASES = (
    "Who or what is {}?", "What does the text say about {}?", "When did {} matter, and why?", "Where is {}?", "What happened to {}?",
    "Why is {} mentioned?", "Who has to do with {}?", "Describe {}.", "What is {} known for?", "What is the connection to {}?",
    "What did {} do?", "What is {} and why is it important?", "How is {} related to {}?", "What does {} have to do with {}?",
    "What year is mentioned in connection with {}?", "What role does {} play in this?", "Is there anything about {}?",
    "Which fact about {} is the most important?", "How many times is {} mentioned?", "What do we learn about {}?")

FIELDS = (
    "What is the {field} of {name}?", "{field} of {name}?", "What does it say about the {field} of {name}?",
    "Tell me the {field} of {name} in a full sentence.", "How would you describe the {field} of {name}?")

NAMES = {
    "person": (
        "Who was {}?", "When was {} born?", "What is {} famous for?", "Where did {} live?", "Tell me about {}.", "When did {} die?",
        "Who was {} married to?", "Where is {} buried?", "What did {} discover?", "What did {} write?", "What nationality was {}?",
        "How old was {} when he died?", "Where did {} go to school?", "What movement did {} belong to?", "Did {} ever meet {}?",
        "Who came after {}?", "What was the most important work of {}?", "Who played {} in the movie?", "Why did {} leave the country?"),
    "place": (
        "Where is {}?", "What is {} known for?", "Which country does {} belong to?", "What can one see in {}?",
        "How many people live in {}?", "What time zone is {} in?", "When was {} founded?", "Where is {} on the map?",
        "What language do they speak in {}?", "Who discovered {}?", "How did {} get its name?", "What is the weather like in {} in june?",
        "How far is it from {} to {}?", "What river runs through {}?", "Is {} bigger than {}?", "Who controlled {} in 1900?",
        "What county is {} in?", "What is the largest city near {}?", "When did {} become independent?", "What was filmed in {}?"),
    "thing": (
        "What is {}?", "What does \"{}\" mean?", "Who was the first to describe {}?", "When was the first {}?", "Give an example of {}.",
        "How does {} work?", "What is the difference between {} and {}?", "Where does the word {} come from?", "Who invented the {}?",
        "What is the purpose of {}?", "How many kinds of {} are there?", "What is {} made of?", "What is another word for {}?",
        "Where can {} be found?", "When was {} introduced?", "What causes {}?", "What is the opposite of {}?", "Who uses {}?",
        "What is the meaning of {} in a sentence?", "What is the role of {} in the body?", "Is {} the same as {}?",
        "Which country has the most {}?", "Why is it called {}?", "What are the main types of {}?", "How long does {} last?"),
    "country": (
        "What is the capital of {}?", "What is the population of {}?", "Who is the head of state of {}?", "What money is used in {}?",
        "What languages are spoken in {}?", "When did {} become independent?", "Which countries border {}?",
        "What is the highest mountain in {}?", "What does the flag of {} look like?", "What are the main exports of {}?",
        "What religion do most people in {} have?", "What type of government does {} have?", "How big is {} compared to {}?",
        "What side of the road do they drive on in {}?", "What is the national anthem of {}?", "What ocean is {} on?",
        "When did {} join the united nations?", "What is the climate in {} like?", "What is the longest river in {}?",
        "Who colonized {}?", "What do people eat in {}?", "Who won the last election in {}?", "How many states are there in {}?")}

TRANSLATIONS = (
    "Translate {} to English: {}", "Translate {} to English: {}", "Translate {} to English: {}", "Translate from {} to English: {}",
    "Translate this {} sentence into English.\n\n{}", "What does this {} sentence mean in English? {}")

CHATS = {
    "headline": (
        "Write the first three paragraphs of a news story with the headline \"{}\".",
        "Write a letter to the editor about the headline \"{}\". Stay polite and use at most {many} words.",
        "Here is a headline: \"{}\". Explain to someone who does not follow the news what it is probably about.",
        "Rewrite this headline in {few} different ways: {}",
        "Draft an email to my colleagues that sums up why \"{}\" matters for our work.",
        "Imagine you are a radio host. Introduce the story \"{}\" to your listeners.",
        "You are a reporter who is about to write \"{}\". Which questions would you ask, and whom?",
        "Write a satirical piece of about {many} words on the headline \"{}\".",
        "Write a dialogue between a journalist and an expert about this: {}",
        "Is the headline \"{}\" about politics, business, sports, science or culture? Give your reasons.",
        "What might happen next after this news: {}",
        "Write a poem of {few} lines inspired by the headline \"{}\"."),
    "person": (
        "Pretend to be {} and answer this question in character: what are you most proud of?",
        "Write an imaginary diary entry of {} on an ordinary day.",
        "Suppose you are {}. Explain your work to a group of schoolchildren.",
        "Write a short biography of {} for the back cover of a book, in about {many} words.",
        "Act as {} and give advice to a young person who wants to follow in your footsteps.",
        "Write an interview with {}, with {few} questions and the answers.",
        "Write a speech that {} could have given at the end of a long life.",
        "If {} lived today, what would be on the first page of the website?",
        "What would {} think about smartphones? Answer as if you were that person."),
    "place": (
        "Plan a weekend in {} for a family with two small children.",
        "Write a travel blog post about a visit to {}, with things to see and local dishes.",
        "Describe a walk through {} at sunrise. Use at most {many} words.",
        "I am moving to {} next month. What should I know and prepare?",
        "You are a tour guide in {}. Welcome a group of visitors and tell them what they will see.",
        "Write the opening of a detective story that takes place in {}.",
        "Compose a postcard from {} to an old friend."),
    "thing": (
        "Write a short story of about {many} words in which a {} plays an important part.",
        "Explain {} to me as if I were ten years old.",
        "Give me {few} creative ideas for a school project about {}.",
        "I have to give a talk about {} tomorrow. Help me with an outline.",
        "Write a funny conversation between two people who confuse {} with something else.",
        "What are the pros and cons of {}? Make a table.",
        "Make a riddle whose answer is \"{}\".",
        "Write a persuasive paragraph on why everybody should know about {}.",
        "My friend keeps talking about {}. How can I politely change the subject?",
        "You are a salesperson. Sell me a {}.",
        "Write a haiku about {} and explain it.",
        "Compose a quiz of {few} multiple-choice questions about {}."),
    "country": (
        "You are the minister of tourism of {}. Write a welcome message.",
        "What should I pack for two weeks in {}, and why?",
        "Compare life in {} and life in a country of your choice.",
        "Write a toast for a dinner with guests from {}.",
        "Outline an essay about the history of {} with {few} sections.",
        "Suggest a menu with three courses from {} and describe how to cook one of them."),
    "subject": (
        "Could you explain {} and give an example?",
        "Write a beginner's guide to {} of about {many} words.",
        "What are the most important facts about {}? Use a numbered list.",
        "Act as a professor. A student asks why {} matters. What do you answer?",
        "Write a forum post that asks for help with {}, and then a helpful reply.",
        "How would you explain {} to somebody who has never heard of it, with an analogy?",
        "Make a study plan of {few} days for learning about {}.",
        "Describe the history of {} in three short paragraphs.")}

TEXT_TASKS = (
    "Extract all names of people, places and organizations from this text, as JSON with one list for each kind.\n\n{text}",
    "Which numbers and dates are in this text, and what do they stand for?\n\n{text}",
    "Rewrite the following text so that a child understands it.\n\n{text}",
    "Rewrite this as a short email to a friend:\n\n{text}",
    "{text}\n\nWrite three questions that this text answers, each with its answer.",
    "Make a timeline of what happens in this text:\n{text}",
    "Turn the following into bullet points.\n\n{text}",
    "Is this text objective? Point out words that show an opinion.\n\n{text}",
    "Classify the text as politics, business, sports, science, culture or other, and answer with one word.\n\n{text}",
    "Continue this text in the same style:\n\n{text}",
    "Improve the style of the following paragraph and explain your changes.\n\n{text}",
    "{text}\n\nRespond to this as somebody who disagrees.",
    "{text}\n\nGive this text a title and five keywords.",
    "Read this and tell me in one sentence what it says about {name}.\n\n{text}",
    "What would {name} say about the following?\n\n{text}",
    "Write a fill-in-the-blank exercise from this text.\n\n{text}",
    "Put this into a table with two columns, topic and detail.\n\n{text}",
    "Paraphrase: {text}",
    "How would a newspaper headline for this look, and how one for a scientific journal?\n\n{text}",
    "Write a comment of two sentences under this article.\n\n{text}")
